"""The API put together: every endpoint, behind the gate."""

from collections.abc import Callable

from litestar import Litestar
from litestar.datastructures import State

from redrive.client.app import App
from redrive.server import openapi
from redrive.server.gate import Gate, guard
from redrive.server.problems import answer_for
from redrive.server.resources import completions, dead_letters, flow_events, flow_steps, flows, health, steps, waiting
from redrive.server.served import Served
from redrive.server.settings import ServerSettings


class Api:
    """An ASGI application over an open app. `on_loopback`: nobody but this machine can reach it."""

    def __init__(self, app: App, settings: ServerSettings | None = None, *, on_loopback: bool = True) -> None:
        settings = settings or ServerSettings()
        self._served = Served(app, settings)
        metrics = health.metrics_endpoint()
        self._stop_counting: Callable[[], None] | None = metrics[1] if metrics else None
        inner = Litestar(
            route_handlers=[
                steps.router,
                flows.router,
                flow_events.router,
                flow_steps.router,
                completions.router,
                dead_letters.router,
                waiting.router,
                health.healthz,
                health.readyz,
                health.document_endpoint(lambda: openapi.document(inner)),
                *([metrics[0]] if metrics else []),
            ],
            guards=[guard],
            exception_handlers={Exception: answer_for},
            request_max_body_size=settings.largest_body,
            state=State({"served": self._served}),
            openapi_config=None,
            logging_config=None,
        )
        self.asgi = Gate(inner, self._served.keys, settings, on_loopback=on_loopback)

    def stop(self) -> None:
        """End the event streams, and count no more."""
        self._served.streams.stop()
        if self._stop_counting is not None:
            self._stop_counting()
            self._stop_counting = None
