"""Start a flow, run it in this process, show its progress, and print its result."""

import asyncio
import contextlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from redrive.assembly import open as open_app
from redrive.cli.definitions.files import GRAPH_ENDINGS, SCRIPT_ENDING
from redrive.cli.definitions.named import Call, Definition
from redrive.cli.exit_codes import FAILED, INTERRUPTED, TIMED_OUT
from redrive.cli.options.policies import PolicyOptions
from redrive.cli.output import print_json
from redrive.cli.processes.event_loop import stop_on_signals
from redrive.cli.processes.progress import Progress
from redrive.cli.stderr_logging import warnings_on_stderr
from redrive.cli.store_access import store_option
from redrive.explain.explanation import explain_text
from redrive.flows.events import FlowCompleted, FlowFailed
from redrive.formatting.text import terminal_json
from redrive.stores.records import FINISHED
from redrive.telemetry.stream import listen

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.client.handle import Handle
    from redrive.runners.http.settings import HttpSettings
    from redrive.stores.interface import Store
    from redrive.stores.records import FlowRecord


class ForegroundFlow:
    def __init__(
        self,
        targets: Sequence[str],
        store: str,
        timeout: float | None,
        http: "HttpSettings",
        policies: PolicyOptions,
        as_json: bool = False,
    ) -> None:
        """targets: the definition that is run, and the modules that were imported for it.

        as_json: print the flow's id and status beside the result, however the flow ended.
        """
        self._as_json = as_json
        self._http = http
        self._policies = policies
        self._targets = targets
        self._store = store
        self._timeout = timeout
        self._stopped = False

    async def run(self, store: "Store", definition: Definition, arguments: Call, key: str | None, queue: str) -> int:
        async with contextlib.AsyncExitStack() as stack:
            with warnings_on_stderr():
                opening = open_app(store, worker=False, queues=(queue,), http=self._http, **self._policies.settings)
                app = await stack.enter_async_context(opening)
            handle = await definition.start(app, arguments, key=key, queue=queue)
            progress = Progress(handle.id)
            stop_listening = listen(progress.listen)
            working = asyncio.create_task(app.work())
            result = asyncio.create_task(handle.result(self._timeout))
            watching = asyncio.create_task(progress.watch(app))

            def stop() -> None:
                self._stopped = True
                app.stop()
                progress.say(
                    f"stopping: flow {handle.id} stays in the store; running attempts have {app.settings.grace:g} s "
                    "to finish; press Ctrl-C again to stop at once"
                )

            restore_signals = stop_on_signals(stop)
            try:
                await asyncio.wait([working, result, watching], return_when=asyncio.FIRST_COMPLETED)
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await watching
                progress.clear()
                if working.done() and not self._stopped:
                    working.result()
                return await self._report(app, handle)
            finally:
                stop_listening()
                app.stop()
                await asyncio.wait([working])
                result.cancel()
                await asyncio.wait([result])
                if not result.cancelled():
                    result.exception()
                restore_signals()

    async def _report(self, app: "App", handle: "Handle[Any]") -> int:
        record = await app.find(handle.id)
        ending = (await app.log(handle.id))[-1].event if record.status in FINISHED else None
        if self._as_json:
            _print_ending(record, ending)
        if record.status == "parked":
            await self._explain(app, handle)
            self._say_how_to_continue(handle.id, record.status, app.store.address, "once resumed, ")
            return INTERRUPTED if self._stopped else FAILED
        if record.status not in FINISHED:
            self._say_how_to_continue(handle.id, record.status, app.store.address)
            return INTERRUPTED if self._stopped else TIMED_OUT
        if isinstance(ending, FlowCompleted):
            if not self._as_json:
                typer.echo(terminal_json(bytes(ending.result).decode()))
            return 0
        await self._explain(app, handle)
        return FAILED

    async def _explain(self, app: "App", handle: "Handle[Any]") -> None:
        typer.echo(explain_text(await app.explain(handle.id), options=store_option(self._store)), err=True)

    def _say_how_to_continue(self, flow_id: str, status: str, address: str, when: str = "") -> None:
        if address.startswith("memory:"):
            typer.echo(f"redrive: flow {flow_id} was {status}, and is lost with its store in memory", err=True)
            return
        options = store_option(self._store)
        policies = "".join(f" {shlex.quote(word)}" for word in self._policies.words)
        modules = " ".join([*_module_of(self._targets[0]), *self._targets[1:]])
        typer.echo(
            f"redrive: flow {flow_id} stays in the store ({status}); {when}it continues with: "
            f"redrive worker {modules}{policies}{options}; to see where it stands: redrive explain {flow_id}{options}",
            err=True,
        )


def _print_ending(record: "FlowRecord", ending: object) -> None:
    data: dict[str, Any] = {"id": record.id, "status": record.status, "result": None, "error": None}
    if isinstance(ending, FlowCompleted):
        data["result"] = msgspec.json.decode(ending.result)
    elif isinstance(ending, FlowFailed):
        data["error"] = {"kind": ending.kind, "type": ending.error.type, "message": ending.error.message}
    print_json(data)


def _module_of(target: str) -> list[str]:
    """Return what a worker must load: the file, or the module of MODULE:NAME; a bare NAME is in the imports."""
    if target.endswith((*GRAPH_ENDINGS, SCRIPT_ENDING)):
        return [target]
    module, separator, _ = target.rpartition(":")
    return [module] if separator else []
