"""Health, readiness, metrics, and the OpenAPI document."""

from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request, Response, get

from redrive.server.context import app_of
from redrive.server.contract.models import ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.telemetry.queue_counts import refresh_counts

METRICS = "text/plain; version=0.0.4"  # Litestar adds the charset


class Health(ResponseModel, frozen=True):
    status: str


@get(
    "/healthz",
    opt=operation(
        summary="Is the server running?",
        tag="health",
        role=None,
        responses={200: ResponseSpec(Health, "The server is running.")},
    ),
)
async def healthz() -> Response[bytes]:
    return json_response(Health(status="ok"))


@get(
    "/readyz",
    opt=operation(
        summary="Is the server ready?",
        tag="health",
        role=None,
        responses={200: ResponseSpec(Health, "The store is reachable.")},
    ),
)
async def readyz(request: Request[Any, Any, Any]) -> Response[bytes]:
    await app_of(request).store.find_flow("")
    return json_response(Health(status="ok"))


def metrics_endpoint() -> tuple[Any, Callable[[], None]] | None:
    """Return the endpoint, and a function that stops collecting; None if prometheus-client is not installed."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest

        from redrive.integrations.prometheus import export
    except ImportError:
        return None
    registry = CollectorRegistry()
    stop = export(registry)

    @get(
        "/metrics",
        opt=operation(
            summary="Metrics for Prometheus",
            tag="health",
            role="read",
            responses={200: ResponseSpec(str, "The metrics of this process.", media_type="text/plain")},
        ),
    )
    async def metrics() -> Response[bytes]:
        await refresh_counts()
        return Response(generate_latest(registry), media_type=METRICS)

    return metrics, stop


def document_endpoint(write: Callable[[], dict[str, Any]]) -> Any:
    """Return the endpoint of the OpenAPI document, which is built at the first request."""
    written: list[bytes] = []

    @get(
        "/openapi.json",
        opt=operation(
            summary="This document", tag="health", role=None, responses={200: ResponseSpec(dict, "OpenAPI 3.1.")}
        ),
    )
    async def document() -> Response[bytes]:
        if not written:
            written.append(msgspec.json.encode(write()))
        return Response(written[0], media_type="application/json")

    return document
