"""Ties an app to the event loop that opened it."""

import asyncio

from redrive.flows.workflows.loop import FlowLoop
from redrive.flows.workflows.loop_errors import NotInWorkflow


class LoopAffinity:
    """Refuses use from any other event loop, where nobody would be woken, and from the code of a workflow."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Bind to the running event loop; RuntimeError where none runs."""
        self.check()
        self._loop = asyncio._get_running_loop()
        if self._loop is None:
            raise RuntimeError(
                "an app needs a running asyncio event loop, and there is none here; under trio, use it in a thread: "
                "await trio.to_thread.run_sync(asyncio.run, main())"
            )

    def unbind(self) -> None:
        self._loop = None

    @property
    def is_bound(self) -> bool:
        return self._loop is not None

    def check(self) -> None:
        """RuntimeError in another event loop; NotInWorkflow in the code of a workflow, whose replay would repeat it."""
        here = asyncio._get_running_loop()
        if here is self._loop or here is None:
            return
        if isinstance(here, FlowLoop):
            raise NotInWorkflow("an app of redrive.open(...)")
        if self._loop is not None:
            raise RuntimeError(
                "this app was opened in another event loop and can be used only there; from another thread: "
                "asyncio.run_coroutine_threadsafe(app.start(...), loop).result()"
            )
