"""Carries out attempts on a simulated machine, and notes each call of user code."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, cast

from redrive.flows.action import Action
from redrive.flows.driver import Handler
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.attempt import Attempt
from redrive.runners.executors import Values
from redrive.runners.outcome_listener import OutcomeListener
from redrive.runners.runner import Runner
from redrive.worker.settings import WorkerSettings

HandleHttp = Callable[[HttpHandler, Attempt, str, int], Awaitable[Any]]
"""Answers an HTTP step: its outputs as JSON, or Accepted. Is told how often this work was called before."""
OnCall = Callable[[Attempt], int]
"""Called when a call begins; returns how often this work was called before."""

calls_before: "ContextVar[int]" = ContextVar("redrive_calls_before", default=0)
"""How often the work of the current attempt was called before, lost calls included."""


class FleetRunner(Runner):
    """Runs plain functions in the machine's only thread: a simulation has no others."""

    def __init__(
        self,
        listener: OutcomeListener,
        settings: WorkerSettings,
        on_call: OnCall,
        handle_http: HandleHttp | None,
        *may_call: Callable[[], bool],
    ) -> None:
        """may_call: what else the worker hands to its runner: asked right before each call."""
        super().__init__(listener, settings.threads, settings.processes, settings.http, *may_call)
        self._on_call = on_call
        self._http = None if handle_http is None else _Http(on_call, handle_http, *may_call)

    def start(self, handler: Handler, attempt: Attempt, arguments: Values) -> None:
        noted = handler if isinstance(handler, HttpHandler) else _Noted(handler, attempt, self._on_call)
        super().start(cast("Handler", noted), attempt, arguments)


class _Noted:
    """An action whose call is noted."""

    executor = "loop"

    def __init__(self, action: Action[Any, Any], attempt: Attempt, on_call: OnCall) -> None:
        self.signature = action.signature
        self._function = action.function
        self._attempt = attempt
        self._on_call = on_call

    async def function(self, *args: Any, **kwargs: Any) -> Any:
        calls_before.set(self._on_call(self._attempt))
        result = self._function(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result


class _Http:
    """Stands for the network between workers and handlers."""

    def __init__(self, on_call: OnCall, handle: HandleHttp, *may_call: Callable[[], bool]) -> None:
        self._on_call = on_call
        self._handle = handle
        self._may_call = may_call

    async def call(self, handler: HttpHandler, attempt: Attempt, body: str) -> Any:
        if not all(may_call() for may_call in self._may_call):
            # The worker has lost its lease: it cancels this when it notices.
            await asyncio.get_running_loop().create_future()
        return await self._handle(handler, attempt, body, self._on_call(attempt))

    async def close(self) -> None:
        pass
