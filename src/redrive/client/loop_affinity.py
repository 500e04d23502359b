"""An app is used in the event loop that opened it, and nowhere else."""

import asyncio

from redrive.flows.workflows.loop import FlowLoop
from redrive.flows.workflows.loop_errors import NotInWorkflow
from redrive.stores.interface import Store


class OneLoop:
    """In another loop nobody would be woken; and what a flow's code did with an app would be done anew by a replay."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def store(self) -> Store:
        self.check_loop()
        return self._store

    def enter_loop(self) -> None:
        self.check_loop()
        self._loop = asyncio._get_running_loop()
        if self._loop is None:
            raise RuntimeError(
                "an app works in an event loop of asyncio, and none runs here; under trio, use it in a thread: "
                "await trio.to_thread.run_sync(asyncio.run, main())"
            )

    def leave_loop(self) -> None:
        self._loop = None

    def check_loop(self) -> None:
        here = asyncio._get_running_loop()
        if here is self._loop or here is None:
            return
        if isinstance(here, FlowLoop):
            raise NotInWorkflow("an app of redrive.open(...)")
        if self._loop is not None:
            raise RuntimeError(
                "this app was opened in another event loop, and can be used in that one only; from another thread: "
                "asyncio.run_coroutine_threadsafe(app.start(...), loop).result()"
            )
