"""`redrive batch`: start, watch, show, list, cancel and redrive batches."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.definitions.named import Definition, find
from redrive.cli.options.inputs import read_input
from redrive.cli.options.shared import ByOption, LimitOption, StoreOption, WhyOption, operator, required_reason
from redrive.cli.options.tags import GivenTagOption, read_tags
from redrive.cli.output import JsonOption, format_utc, print_json, print_table
from redrive.cli.store_access import refusals_as_bad_input, with_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redrive.client.app import App
    from redrive.stores.batches import BatchStatus

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The batch.")]
STATES = ("ready", "waiting", "running", "paused", "parked", "completed", "failed", "cancelled")
BAR = 30


def start_command(
    name: NameArgument,
    target: Annotated[
        str, typer.Argument(metavar="MODULE:WORKFLOW|NAME", help="What each flow runs; a NAME needs --import MODULE.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The inputs: a JSON object a line; - reads stdin.")],
    imports: Annotated[
        list[str] | None, typer.Option("--import", metavar="MODULE", help="A module that registers NAME; repeatable.")
    ] = None,
    on_done: Annotated[
        str, typer.Option(metavar="MODULE:WORKFLOW|NAME", help="What to start once, when all flows have ended.")
    ] = "",
    queue: Annotated[str, typer.Option(help="The queue of the flows.")] = "default",
    tag: GivenTagOption = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add a batch: a flow for each line of a file. Adding the same again adds what is missing.

    \b
    redrive batch start 'night 2026-11-19' shop.flows:Billing users.jsonl --tag tenant=acme
    """
    definition, tags = find(target, imports or ()), read_tags(tag)
    following = find(on_done, imports or ()) if on_done else None
    with refusals_as_bad_input():
        calls = list(_calls(definition, file))
        after = None if following is None else _call(following, "{}")

    async def start(app: "App") -> "BatchStatus":
        def added(count: int) -> None:
            _say(f"{count} of {len(calls)} added")

        batch = await app.batch(name, calls, on_done=after, progress=added, queue=queue, tags=tags)
        return await batch.status()

    _show(_run(store, start, creates=True), as_json)


def _calls(definition: Definition, file: Path) -> "Iterator[Any]":
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise BadInput(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield _call(definition, line)
            except BadInput as error:
                raise BadInput(f"{file}, line {number}: {error}") from None


def _call(definition: Definition, text: str) -> Any:
    return definition.call(read_input(definition, text))


def watch_command(name: NameArgument, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Show how far a batch is until all its flows have ended. The exit code is 1 if any failed.

    \b
    redrive batch watch 'night 2026-11-19'
    """

    async def watch(app: "App") -> "BatchStatus":
        batch = await app.find_batch(name)
        status = await batch.status()
        async for status in batch.progress():
            _say(_bar(status))
        return status

    status = _run(store, watch)
    _show(status, as_json)
    if status.counts.failed:
        raise typer.Exit(1)


def show_command(name: NameArgument, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Show how many flows of a batch are in each state.

    \b
    redrive batch show 'night 2026-11-19'
    """

    async def show(app: "App") -> "BatchStatus":
        return await (await app.find_batch(name)).status()

    _show(_run(store, show), as_json)


def list_command(limit: LimitOption = 50, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List batches, newest first.

    \b
    redrive batch list
    """

    async def found(app: "App") -> "list[BatchStatus]":
        from redrive.stores.batches import BatchQuery

        return await app.batches(BatchQuery(limit=limit))

    batches = _run(store, found)
    if as_json:
        print_json({"batches": [_as_data(one) for one in batches]})
    elif not batches:
        typer.echo("There are no batches.")
    else:
        rows = [(one.name, format_utc(one.created_at) or "", _summary(one)) for one in batches]
        print_table(("batch", "created", "flows"), rows, whole="batch")


def cancel_command(
    name: NameArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Ask all flows of a batch that have not ended to stop.

    \b
    redrive batch cancel 'night 2026-11-19' --why 'not tonight'
    """
    _act("cancel", name, why, by, store, as_json)


def redrive_command(
    name: NameArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Put the flows of a batch that failed back to work, each at the step that failed.

    \b
    redrive batch redrive 'night 2026-11-19' --why 'the bank is back'
    """
    _act("redrive", name, why, by, store, as_json)


def _act(verb: str, name: str, why: str, by: str, store: str, as_json: bool) -> None:
    reason, who = required_reason(why), operator(by)

    async def act(app: "App") -> Any:
        batch = await app.find_batch(name)
        async with audited(app, f"batch.{verb}", name, by=who, detail=reason):
            done = batch.cancel if verb == "cancel" else batch.redrive
            return await done(by=who, why=reason, progress=lambda outcome: _say(f"{outcome.done} so far"))

    outcome = _run(store, act)
    if as_json:
        data = {"name": name, "requested": verb, "count": outcome.count, "done": outcome.done, "by": who, "why": reason}
        print_json(data)
    else:
        typer.echo(f"Asked {outcome.done} of {outcome.count} flows to {verb}; see: redrive batch show NAME")


def _run(store: str, task: Any, creates: bool = False) -> Any:
    from redrive.errors import BatchNotFoundError, BatchTakenError

    try:
        return with_app(store, task, creates=creates)
    except (BatchNotFoundError, BatchTakenError) as error:
        raise BadInput(str(error)) from None
    except ValueError as error:
        if str(error).startswith("batch: "):
            raise BadInput(str(error)) from None
        raise


def _say(line: str) -> None:
    end = "\r\x1b[K" if sys.stderr.isatty() else ""
    typer.echo(end + line, err=True, nl=not end)


def _bar(status: "BatchStatus") -> str:
    total = status.total or 0
    filled = BAR * status.counts.ended // total if total else 0
    return f"[{'#' * filled}{'.' * (BAR - filled)}] {_summary(status)}"


def _summary(status: "BatchStatus") -> str:
    total = "being added" if status.total is None else f"{status.counts.ended} of {status.total} ended"
    counted = [f"{count} {state}" for state in STATES if (count := getattr(status.counts, state))]
    return ", ".join([total, *counted])


def _as_data(status: "BatchStatus") -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(status)
    return data | {
        "is_done": status.is_done,
        "created_at": format_utc(status.created_at),
        "done_at": format_utc(status.done_at),
    }


def _show(status: "BatchStatus", as_json: bool) -> None:
    if as_json:
        print_json(_as_data(status))
        return
    if sys.stderr.isatty():
        typer.echo("", err=True)
    typer.echo(f"{status.name}: {_summary(status)}")
    if status.on_done is not None:
        verb = "was started" if status.done_at is not None else "starts when all have ended"
        typer.echo(f"flow {status.on_done} {verb}")
