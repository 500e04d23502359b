"""Is the server there, can it work, and its figures."""

from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request, Response, get

from redrive.server.operations import Answer, Says, answer, opt
from redrive.server.served import app_of

METRICS = "text/plain; version=0.0.4"  # to which Litestar adds the charset


class Health(Answer, frozen=True):
    status: str


@get(
    "/healthz",
    opt=opt(summary="Is the server there?", tag="health", role=None, answers={200: Says(Health, "It is.")}),
)
async def healthz() -> Response[bytes]:
    return answer(Health(status="ok"))


@get(
    "/readyz",
    opt=opt(
        summary="Can the server work?",
        tag="health",
        role=None,
        answers={200: Says(Health, "The store can be reached.")},
    ),
)
async def readyz(request: Request[Any, Any, Any]) -> Response[bytes]:
    await app_of(request).store.find_flow("")
    return answer(Health(status="ok"))


def metrics_endpoint() -> tuple[Any, Callable[[], None]] | None:
    """The endpoint and what ends its counting; None where prometheus-client is not installed."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest

        from redrive.integrations.prometheus import export
    except ImportError:
        return None
    registry = CollectorRegistry()
    stop = export(registry)

    @get(
        "/metrics",
        opt=opt(
            summary="Metrics for Prometheus",
            tag="health",
            role="read",
            answers={200: Says(str, "What this process counted.", media_type="text/plain")},
        ),
    )
    async def metrics() -> Response[bytes]:
        return Response(generate_latest(registry), media_type=METRICS)

    return metrics, stop


def document_endpoint(write: Callable[[], dict[str, Any]]) -> Any:
    """The OpenAPI document, written when it is first asked for."""
    written: list[bytes] = []

    @get(
        "/openapi.json",
        opt=opt(summary="This document", tag="health", role=None, answers={200: Says(dict, "OpenAPI 3.1.")}),
    )
    async def document() -> Response[bytes]:
        if not written:
            written.append(msgspec.json.encode(write()))
        return Response(written[0], media_type="application/json")

    return document
