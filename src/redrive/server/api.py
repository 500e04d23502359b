"""Assemble the API: every endpoint, behind the middleware."""

from collections.abc import Callable

from litestar import Litestar
from litestar.datastructures import State

from redrive.client.app import App
from redrive.server.access.authentication import Authenticator, authorize
from redrive.server.context import ServerContext
from redrive.server.contract import openapi
from redrive.server.contract.problems import problem_response
from redrive.server.dashboard_files import DashboardFiles
from redrive.server.middleware import Middleware
from redrive.server.resources import (
    audit,
    batches,
    completions,
    dead_letters,
    definitions,
    dependencies,
    flow_bulk,
    flow_events,
    flow_queries,
    flow_signals,
    flow_steps,
    flows,
    health,
    overview,
    policies,
    queues,
    retries,
    schedules,
    session,
    steps,
    workers,
)
from redrive.server.settings import ServerSettings
from redrive.server.streams.live_endpoints import live_snapshots
from redrive.server.transport.body_budget import BodyBudget
from redrive.server.transport.rate_limit import RateLimiter


class Api:
    """An ASGI application over an open app.

    on_loopback: only this machine can reach it. read_only: nothing can be changed, whatever the caller's role.
    """

    def __init__(
        self,
        app: App,
        settings: ServerSettings | None = None,
        *,
        on_loopback: bool = True,
        read_only: bool = False,
    ) -> None:
        self.settings = settings = settings or ServerSettings()
        self.context = ServerContext(app, settings, read_only=read_only)
        metrics = health.metrics_endpoint()
        self._stop_metrics: Callable[[], None] | None = metrics[1] if metrics else None
        inner = Litestar(
            route_handlers=[
                steps.router,
                flows.router,
                flow_bulk.router,
                batches.router,
                flow_events.router,
                flow_queries.router,
                flow_signals.router,
                flow_steps.router,
                completions.router,
                dead_letters.router,
                retries.router,
                queues.router,
                schedules.router,
                workers.router,
                overview.router,
                dependencies.router,
                definitions.router,
                audit.router,
                policies.router,
                session.router,
                health.healthz,
                health.readyz,
                health.document_endpoint(lambda: openapi.document(inner)),
                *([metrics[0]] if metrics else []),
            ],
            guards=[authorize],
            before_request=live_snapshots,
            exception_handlers={Exception: problem_response},
            request_max_body_size=settings.largest_body,
            state=State({"context": self.context}),
            openapi_config=None,
            logging_config=None,
        )
        authenticator = Authenticator(self.context.keys, self.context.sessions, on_loopback=on_loopback)
        limiter = RateLimiter(settings.rate, settings.burst)
        bodies = BodyBudget(settings.bodies, settings.bodies_per_caller, settings.bodies_patience)
        self.asgi = Middleware(inner, authenticator, limiter, bodies, DashboardFiles.load())

    def stop(self) -> None:
        """End the event streams, and stop collecting metrics."""
        self.context.stream_places.stop()
        if self._stop_metrics is not None:
            self._stop_metrics()
            self._stop_metrics = None
