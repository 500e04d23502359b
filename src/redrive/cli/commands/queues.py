"""`redrive queues`: list queues, and pause, resume or limit them."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.options.shared import ByOption, StoreOption, WhyOption, operator, required_reason
from redrive.cli.output import JsonOption, format_ago, format_utc, print_json, print_table
from redrive.cli.store_access import store_option, with_app
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.near_names import near_name

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.queues import QueueRecord

STATES = ("ready", "waiting", "due", "running", "retrying", "paused", "parked")
QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.")]
NO_LIMIT = "none"
DEFAULT_QUEUE = "default"
MOST_NAMED = 10


def list_command(store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List queues with their limits and rates, their pauses, and how many of their flows are in which state.

    \b
    ready     wait for a worker          running   are owned by a worker
    waiting   wait for their time        retrying  work items that wait for another attempt or are in it
    due       those whose time has come  paused, parked: one by one, until someone resumes them

    \b
    redrive queues
    """

    async def find(app: "App") -> "tuple[list[QueueRecord], dict[str, int]]":
        return await app.queues(), await app.store.count_retries()

    queues, retries = with_app(store, find)
    shown = [_as_data(queue, retries.get(queue.name, 0)) for queue in queues]
    if as_json:
        print_json({"queues": shown})
    elif not shown:
        typer.echo("No queue has unfinished flows, a limit or a pause.")
    else:
        now = SYSTEM_CLOCK.wall()
        rows = [
            (one["name"], *(str(one[state]) for state in STATES), _format_settings(queue), _format_pause(queue, now))
            for one, queue in zip(shown, queues, strict=True)
        ]
        print_table(("queue", *STATES, "limits", "queue paused"), rows, whole="queue")


def pause_command(
    queue: QueueArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Pause a queue in the whole fleet: no attempt of its flows begins until it is resumed. Running ones may finish.

    \b
    redrive queues pause mail --why 'the provider is down'
    """
    reason, name = required_reason(why), operator(by)

    async def pause(app: "App") -> "tuple[bool, _Queue]":
        await _check(app, queue)
        async with audited(app, "queue.pause", queue, by=name, detail=reason):
            changed = await app.pause_queue(queue, by=name, why=reason)
        return changed, await _find(app, queue)

    changed, found = with_app(store, pause)
    record = found.record
    if as_json:
        print_json(_changed(found, changed))
    elif changed:
        resume = f"redrive queues resume {_quoted(queue)} --why WHY{store_option(store)}"
        running = f"; {record.running} of its flows still finish what they run" if record.running else ""
        typer.echo(f"Paused queue {queue}{running}. To go on: {resume}")
    else:
        typer.echo(f"Queue {queue} was paused already: {_format_pause(record, SYSTEM_CLOCK.wall())}")


def resume_command(
    queue: QueueArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Resume a paused queue: its flows go on where they were.

    \b
    redrive queues resume mail --why 'the provider is back'
    """
    reason, name = required_reason(why), operator(by)

    async def resume(app: "App") -> "tuple[bool, _Queue]":
        await _check(app, queue)
        async with audited(app, "queue.resume", queue, by=name, detail=reason):
            changed = await app.resume_queue(queue)
        return changed, await _find(app, queue)

    changed, found = with_app(store, resume)
    if as_json:
        print_json(_changed(found, changed))
    else:
        typer.echo(f"Resumed queue {queue}." if changed else f"Queue {queue} was not paused.")


def limit_command(
    queue: QueueArgument,
    limit: Annotated[str, typer.Argument(metavar="N", help=f"How many; {NO_LIMIT} removes the limit.")],
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let at most N flows of a queue run at once, in the whole fleet.

    \b
    redrive queues limit mail 10
    redrive queues limit mail none
    """
    number = _read_limit(limit)

    async def set_limit(app: "App") -> "_Queue":
        await _check(app, queue)
        async with audited(app, "queue.limit", queue, by=operator(by), detail=f"limit: {limit}"):
            await app.limit_queue(queue, number)
        return await _find(app, queue)

    found = with_app(store, set_limit)
    if as_json:
        print_json(_changed(found, True))
    else:
        typer.echo(f"Queue {queue}: limit {_format_limit(number) or NO_LIMIT}, {found.record.running} running now.")


def set_command(
    queue: QueueArgument,
    limit: Annotated[str, typer.Option(metavar="N", help="How many of its flows may run at once.")] = "",
    per_key: Annotated[
        str, typer.Option("--per-key", metavar="N", help="How many of these may have the same concurrency key.")
    ] = "",
    rate: Annotated[
        str, typer.Option(metavar="N/TIME", help="How many of its flows may begin in which time: 100/m, 5/s, 10/30s.")
    ] = "",
    key_rate: Annotated[
        str, typer.Option("--key-rate", metavar="N/TIME", help="The same for each concurrency key.")
    ] = "",
    aging: Annotated[
        str, typer.Option(metavar="DURATION", help="Raise the priority of a flow by one for each such time it waits.")
    ] = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Set how many flows of a queue, or of a key in it, may run at once or begin in a time, in the whole fleet.

    What is not named stays as it is; none removes a setting.

    \b
    redrive queues set mail --rate 100/m --per-key 2
    redrive queues set mail --rate none
    """
    from redrive.client.queue_control import checked_changes

    changes: Any = {}
    for name, text in (("limit", limit), ("per_key", per_key)):
        if text:
            changes[name] = _read_limit(text)
    changes |= {
        name: None if text == NO_LIMIT else text
        for name, text in (("rate", rate), ("key_rate", key_rate), ("aging", aging))
        if text
    }
    if not changes:
        raise BadInput("name what to set: --limit, --per-key, --rate, --key-rate or --aging")
    try:
        checked_changes(changes)
    except ValueError as error:
        raise BadInput(f"--{str(error).replace('key_rate', 'key-rate')}") from None

    async def configure(app: "App") -> "_Queue":
        await _check(app, queue)
        detail = ", ".join(f"{name}: {NO_LIMIT if value is None else value}" for name, value in changes.items())
        async with audited(app, "queue.limit", queue, by=operator(by), detail=detail):
            await app.configure_queue(queue, **changes)
        return await _find(app, queue)

    found = with_app(store, configure)
    if as_json:
        print_json(_changed(found, True))
    else:
        typer.echo(f"Queue {queue}: {_format_settings(found.record) or 'no limits'}.")


def _read_limit(text: str) -> int | None:
    from redrive.stores.queue_names import LARGEST_LIMIT

    if text == NO_LIMIT:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:20]) <= LARGEST_LIMIT:
        allowed = f"use a whole number from 1 to {LARGEST_LIMIT}, or {NO_LIMIT}"
        pause = "; to stop a queue: redrive queues pause" if text == "0" else ""
        raise BadInput(f"{text!r:.40} is not a limit; {allowed}{pause}")
    return int(text)


async def _check(app: "App", queue: str) -> None:
    """Raise BadInput for what cannot be a queue; warn of one that nothing uses, which may be a slip of the pen."""
    from redrive.explain.store_reader import all_workers
    from redrive.stores.queue_names import check_queue

    try:
        check_queue(queue)
    except ValueError as error:
        raise BadInput(str(error)) from None
    used = {one.name for one in await app.queues()}
    used |= {name for worker in await all_workers(app.store) for name in worker.queues or ()}
    if queue not in used and queue != DEFAULT_QUEUE:
        known = sorted({*used, DEFAULT_QUEUE})
        more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
        close = near_name(queue, known)
        typer.echo(
            f"redrive: no unfinished flow and no worker names queue {queue}"
            f"{f'; did you mean {close}?' if close else ';'} known queues: {', '.join(known[:MOST_NAMED])}{more}",
            err=True,
        )


class _Queue(NamedTuple):
    record: "QueueRecord"
    retrying: int


async def _find(app: "App", queue: str) -> _Queue:
    from redrive.stores.queues import QueueRecord

    found = await app.store.list_queues(app.now(), queue)
    record = found[0] if found else QueueRecord(name=queue, limit=None, ready=0, waiting=0, running=0)
    return _Queue(record, (await app.store.count_retries()).get(queue, 0))


def _as_data(queue: "QueueRecord", retrying: int) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(queue)
    if queue.pause is not None:
        data["pause"]["at"] = format_utc(queue.pause.at)
    return data | {"retrying": retrying}


def _changed(queue: _Queue, changed: bool) -> dict[str, Any]:
    return {"queue": _as_data(queue.record, queue.retrying), "changed": changed}


def _format_limit(limit: int | None) -> str:
    return "" if limit is None else str(limit)


def _format_settings(queue: "QueueRecord") -> str:
    """The settings in words: "limit 10, 2 a key, rate 100/m"."""
    from redrive.formatting.times import format_duration

    parts = {
        f"limit {queue.limit}": queue.limit,
        f"{queue.per_key} a key": queue.per_key,
        f"rate {queue.rate}": queue.rate,
        f"{queue.key_rate} a key": queue.key_rate,
        f"priority +1 each {format_duration(queue.aging or 0.0)}": queue.aging,
    }
    return ", ".join(text for text, setting in parts.items() if setting is not None)


def _format_pause(queue: "QueueRecord", now: float) -> str:
    if queue.pause is None:
        return ""
    why = f" ({queue.pause.why})" if queue.pause.why else ""
    return f"by {queue.pause.by} {format_ago(now - queue.pause.at)}{why}"


def _quoted(queue: str) -> str:
    import shlex

    return shlex.quote(queue)
