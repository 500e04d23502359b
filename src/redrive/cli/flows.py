"""`redrive flows`: list flows, and tell them what to do."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.exit_codes import FAILED, TOO_LATE
from redrive.cli.output import JsonOption, print_json, print_table
from redrive.cli.run import read_seconds
from redrive.cli.store_use import ByOption, FlowArgument, StoreOption, WhyOption, ask, reason, store_words, who
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.records import FlowRecord, WorkerRecord

MOST = 1000

LimitOption = Annotated[int, typer.Option(min=1, max=MOST, help="How many to list at most.")]
DefinitionOption = Annotated[
    str, typer.Option("--definition", metavar="NAME", help="Those of it: Billing, or workflow:Billing, action:charge.")
]
QueueOption = Annotated[str, typer.Option("--queue", metavar="NAME", help="Those of this queue.")]


def list_command(
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATUS", help="Those that are so; may be repeated.")
    ] = None,
    definition: DefinitionOption = "",
    queue: QueueOption = "",
    key: Annotated[str, typer.Option(metavar="KEY", help="The one that was started with this key.")] = "",
    limit: LimitOption = 50,
    before: Annotated[str, typer.Option(metavar="FLOW", help="The page after the one that ends with it.")] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List flows, newest first.

    \b
    redrive flows
    redrive flows --status waiting --status ready --definition Billing --limit 20
    """
    statuses = _known_statuses(status or [])

    async def listed(app: "App") -> "tuple[list[FlowRecord], list[WorkerRecord]]":
        from redrive.stores.records import FlowQuery

        flows = await app.flows(
            FlowQuery(
                status=statuses,
                definition=await full_name(app, definition),
                queue=queue or None,
                key=key or None,
                before=before or None,
                limit=limit + 1,
            )
        )
        return flows, await alive(app)

    found, workers = ask(store, listed)
    shown, more = found[:limit], len(found) > limit
    if as_json:
        print_json({"flows": [_as_data(flow) for flow in shown], "more": more})
        return
    if not shown:
        typer.echo("no such flows")
        return
    now = SYSTEM_CLOCK.wall()
    columns = ("flow", "definition", "status", "asked", "then", "queue", "key")
    rows = [
        (
            flow.id,
            flow.definition,
            flow.status,
            ago(now - flow.created_at),
            _then(flow, workers, now),
            flow.queue,
            _short(flow.key or ""),
        )
        for flow in shown
    ]
    print_table(columns, rows, whole="flow")
    if more:
        typer.echo(f"... there are more: add --before {shown[-1].id}, or --limit up to {MOST}", err=True)


def cancel_command(
    flow: FlowArgument,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="End it at once: none of its code runs any more, and nothing is undone. "
            "A live worker that knows the flow's code has to do it.",
        ),
    ] = False,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Ask a flow to stop: waits end at once, running coroutines are cancelled, its code may clean up.

    \b
    redrive flows cancel 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'ordered twice'
    redrive flows cancel 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --force --why 'its code does not stop'
    """
    _tell(flow, "cancel", why, by, store, as_json, **({"force": True} if force else {}))


def pause_command(
    flow: FlowArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Let a flow begin no more attempts until it is resumed; those that run may end.

    \b
    redrive flows pause 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the bank asked us to'
    """
    _tell(flow, "pause", why, by, store, as_json)


def resume_command(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The id of a flow.")] = "",
    parked: Annotated[bool, typer.Option("--parked", help="All that are parked, or of those:")] = False,
    definition: DefinitionOption = "",
    queue: QueueOption = "",
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let a paused flow go on, or a parked one whose code was mended; with --parked all that are parked.

    \b
    redrive flows resume 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the code is mended'
    redrive flows resume --parked --definition Billing --why 'the deploy is over'
    """
    if flow and (parked or definition or queue):
        raise BadInput("name a flow, or choose those that are parked with --parked, not both")
    if flow:
        _tell(flow, "resume", why, by, store, as_json)
    elif parked:
        _resume_parked(definition, queue, why, by, store, as_json)
    else:
        raise BadInput("which one? name a flow, or add --parked for all that are parked")


def result_command(
    flow: FlowArgument,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Wait so long for it to end.")] = "0s",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> int:
    """Print the result of a flow. It is JSON, asked for or not. Exit code 1: it failed, 124: it has not ended yet.

    \b
    redrive flows result 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --timeout 30s
    """
    seconds = read_seconds("--timeout", timeout)

    async def told(app: "App") -> int:
        from redrive.flows.events import FlowCompleted
        from redrive.stores.records import FINISHED

        await app.find(flow)
        try:
            await app.handle(flow).result(seconds)
        except Exception:  # noqa: BLE001 - how it ended is read from its log, whatever it raised
            record = await app.find(flow)
        else:
            record = await app.find(flow)
        lines = await app.log(flow) if record.status in FINISHED else []
        ending = lines[-1].event if lines else None
        if isinstance(ending, FlowCompleted):
            typer.echo(bytes(ending.result).decode())
            return 0
        said = f"redrive: no result: {(await app.explain(flow)).headline}; see redrive explain {flow}"
        typer.echo(f"{said}{store_words(store)}", err=True)
        return FAILED if record.status in FINISHED else TOO_LATE

    return ask(store, told)


def _tell(flow: str, what: str, why: str, by: str, store: str, as_json: bool, **more: Any) -> None:
    said, name = reason(why), who(by)

    async def tell(app: "App") -> str:
        from redrive.explain.worker_eligibility import WhoCan

        record, handle = await app.find(flow), app.handle(flow)
        can = WhoCan(record, await alive(app))
        # None of its code has to run, so that none of its actions must be known.
        without_code = what == "cancel" and can.missing and (more or not await app.log(flow))
        verbs: dict[str, Any] = {"cancel": handle.cancel, "pause": handle.pause, "resume": handle.resume}
        await verbs[what](by=name, why=said, **more)
        if can.able or without_code:
            return "its worker does so"
        if can.missing:
            end = "; only --force needs none of them" if what == "cancel" else ""
            return f"but it waits for {can.missing_in_words}, and none that is alive does{end}"
        return (
            f"but no live worker knows {record.definition}, so it stays as it is until one does: redrive worker MODULE"
        )

    then = ask(store, tell)
    if as_json:
        print_json({"id": flow, "told": what, "by": name, "why": said})
    else:
        typer.echo(f"told flow {flow} to {what}; {then}; see: redrive explain {flow}{store_words(store)}")


def _resume_parked(definition: str, queue: str, why: str, by: str, store: str, as_json: bool) -> None:
    said, name = reason(why), who(by)

    async def resume(app: "App") -> list[str]:
        from redrive.errors import FlowFinishedError, FlowNotFoundError
        from redrive.stores.records import FlowQuery

        told: list[str] = []
        kind, before = await full_name(app, definition), None
        while page := await app.flows(
            FlowQuery(status=("parked",), definition=kind, queue=queue or None, before=before, limit=MOST)
        ):
            for flow in page:
                # It may have been cancelled or pruned meanwhile.
                with contextlib.suppress(FlowFinishedError, FlowNotFoundError):
                    await app.handle(flow.id).resume(by=name, why=said)
                    told.append(flow.id)
            before = page[-1].id
            if len(page) == MOST:
                typer.echo(f"told {len(told)} so far", err=True)
        return told

    told = ask(store, resume)
    if as_json:
        print_json({"ids": told, "told": "resume", "by": name, "why": said})
    elif told:
        flows = "1 parked flow" if len(told) == 1 else f"{len(told)} parked flows"
        typer.echo(f"told {flows} to resume; what still does not fit is parked again: redrive flows --status parked")
    else:
        typer.echo("no such flow is parked")


async def alive(app: "App") -> "list[WorkerRecord]":
    """The workers whose lease is valid."""
    from redrive.explain.worker_eligibility import workers_in

    return [one for one in await workers_in(app.store) if one.alive]


def _known_statuses(given: Sequence[str]) -> Any:
    from redrive.stores.records import FlowStatus

    known = get_args(FlowStatus)
    for status in given:
        if status not in known:
            raise BadInput(f"--status: {status!r} is none; use one of {', '.join(known)}")
    return tuple(given)


async def full_name(app: "App", name: str) -> str | None:
    """The name of a definition as flows have it; None where none is asked for."""
    from redrive.client import definition_names

    return await definition_names.full_name(app, name) if name else None


def _as_data(flow: "FlowRecord") -> dict[str, Any]:
    """A flow without what it was started with: that may hold secrets, and `explain` shows a summary."""
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(flow)
    del data["input"]
    for name in ("created_at", "start_at", "wake_at", "finished_at"):
        data[name] = as_utc(data[name])
    return data


def as_utc(at: float | None) -> str | None:
    from redrive.explain.words import utc

    return None if at is None else utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ago(seconds: float) -> str:
    from redrive.explain.words import span

    return f"{span(float(round(max(0.0, seconds))))} ago"


def _then(flow: "FlowRecord", workers: "list[WorkerRecord]", now: float) -> str:
    from redrive.explain.words import span
    from redrive.explain.worker_eligibility import WhoCan

    if flow.finished_at is not None:
        return f"ended {ago(now - flow.finished_at)}"
    if flow.status in ("ready", "waiting") and (missing := WhoCan(flow, workers).missing_in_words):
        return f"waits for {missing}"
    if flow.wake_at is not None and flow.status == "waiting":
        left = flow.wake_at - now
        return f"goes on in {span(float(round(left)))}" if left > 0 else f"due {ago(-left)}"
    return ""


def _short(text: str) -> str:
    from redrive.failures.redaction import redact

    return redact(text, 40)
