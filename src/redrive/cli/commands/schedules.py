"""`redrive schedules`: list, show and add schedules; pause, resume, trigger, fill back and delete them."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.definitions.files import EnvOption
from redrive.cli.definitions.named import find
from redrive.cli.options.inputs import InputOption, read_input
from redrive.cli.options.shared import ByOption, FunctionOption, StoreOption, WhyOption, operator, required_reason
from redrive.cli.output import JsonOption, format_utc, print_json, print_table
from redrive.cli.store_access import refusals_as_bad_input, with_app

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.client.schedule_control import Backfilled
    from redrive.client.schedule_views import ScheduleView

T = TypeVar("T")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]
TicksOption = Annotated[int, typer.Option("--ticks", min=0, max=100, help="How many of the next ticks.")]
_TIMES = frozenset({"at", "created_at", "updated_at", "next_at", "tick", "pending"})


def list_command(
    after: Annotated[str, typer.Option(metavar="NAME", help="Only those after this name.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="List at most this many.")] = 100,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List schedules with their next tick, and what became of the last ones.

    \b
    redrive schedules
    """
    found = with_app(store, lambda app: app.schedules(after=after, limit=limit))
    if as_json:
        print_json({"schedules": [as_data(one) for one in found]})
    elif not found:
        typer.echo("There are no schedules.")
    else:
        columns = ("schedule", "state", "when", "next", "starts", "started", "overlapped", "missed", "last flow")
        print_table(columns, map(_row, found), whole="schedule")


def show_command(
    name: NameArgument, ticks: TicksOption = 5, store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Show a schedule: when it fires next, which flows it started, and which ticks it skipped and why.

    \b
    redrive schedules show nightly --ticks 10
    """
    view = with_app(store, lambda app: app.find_schedule(name, ticks=ticks))
    if as_json:
        print_json(as_data(view))
    else:
        _print(view)


def add_command(
    name: NameArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:WORKFLOW|NAME|GRAPH.yaml|SCRIPT.rd", help="What to start; a NAME needs --import MODULE."
        ),
    ],
    text: InputOption = "{}",
    cron: Annotated[str, typer.Option(metavar="CRON", help="Five fields, such as '0 2 * * *'.")] = "",
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="The zone of --cron.")] = "UTC",
    every: Annotated[str, typer.Option(metavar="DURATION", help="An interval instead: 10m, 1h.")] = "",
    at: Annotated[str, typer.Option(metavar="TIME", help="One time instead: 2030-01-31T02:00Z.")] = "",
    overlap: Annotated[
        str, typer.Option(help="While an earlier flow still runs: skip, queue, cancel or allow.")
    ] = "skip",
    catch_up: Annotated[str, typer.Option(metavar="DURATION", help="How late a tick may be after a downtime.")] = "1h",
    jitter: Annotated[str, typer.Option(metavar="DURATION", help="Delay each tick by up to this.")] = "0",
    imports: Annotated[
        list[str] | None, typer.Option("--import", metavar="MODULE", help="A module that registers NAME; repeatable.")
    ] = None,
    function: FunctionOption = "",
    queue: Annotated[str, typer.Option(help="The queue of its flows.")] = "default",
    priority: Annotated[int, typer.Option(help="Of its flows; a higher one goes first.")] = 0,
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="NAME=TEXT", help="Of its flows.")] = None,
    env: EnvOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start flows by a schedule, or change the schedule of that name.

    \b
    redrive schedules add nightly shop.flows:Report --cron '0 2 * * *' --timezone Europe/Berlin
    redrive schedules add tidy shop.flows:tidy --every 10m --overlap queue
    """
    definition = find(target, imports or (), env).with_function(function)
    with refusals_as_bad_input():
        arguments = read_input(definition, text)
    settings: dict[str, Any] = {"timezone": timezone, "overlap": overlap, "catch_up": catch_up, "jitter": jitter}
    settings |= {"cron": cron or None, "every": every or None, "at": _read_time("--at", at) if at else None}
    settings |= {"queue": queue, "priority": priority, "tags": _read_tags(tags or [])}

    async def add(app: "App") -> "ScheduleView":
        async with audited(
            app, "schedule.set", name, by=operator(by), detail=f"{definition.name}: {cron or every or at}"
        ):
            return await definition.schedule(app, name, arguments, **settings)

    view = with_app(store, add, creates=True)
    if as_json:
        print_json(as_data(view))
    else:
        _print(view)


def pause_command(
    name: NameArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Pause a schedule: it starts nothing until it is resumed, and does not make up for it then.

    \b
    redrive schedules pause nightly --why 'the warehouse is closed'
    """
    reason, who = required_reason(why), operator(by)
    changed = _act(store, name, "schedule.pause", who, reason, lambda app: app.pause_schedule(name, by=who, why=reason))
    _tell(
        as_json, {"changed": changed}, f"Paused schedule {name}." if changed else f"Schedule {name} was paused already."
    )


def resume_command(
    name: NameArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Resume a paused schedule: it goes on with its next tick.

    \b
    redrive schedules resume nightly --why 'the warehouse is open'
    """
    reason, who = required_reason(why), operator(by)
    changed = _act(
        store, name, "schedule.resume", who, reason, lambda app: app.resume_schedule(name, by=who, why=reason)
    )
    _tell(as_json, {"changed": changed}, f"Resumed schedule {name}." if changed else f"Schedule {name} was not paused.")


def trigger_command(
    name: NameArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Start a flow of a schedule now, also while another one runs, and print its id.

    \b
    redrive schedules trigger nightly --why 'the report was wrong'
    """
    reason, who = required_reason(why), operator(by)

    async def trigger(app: "App") -> str:
        return (await app.trigger_schedule(name, by=who, why=reason)).id

    flow_id = _act(store, name, "schedule.trigger", who, reason, trigger)
    _tell(as_json, {"id": flow_id}, flow_id)


def backfill_command(
    name: NameArgument,
    begin: Annotated[str, typer.Option("--from", metavar="TIME", help="The first time: 2030-01-31, or with T02:00Z.")],
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="The last time.")],
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start the flows of past ticks that have none yet, all at once.

    \b
    redrive schedules backfill nightly --from 2030-01-01 --to 2030-01-31 --why 'a new report'
    """
    reason, who = required_reason(why), operator(by)
    first, last = _read_time("--from", begin), _read_time("--to", end)

    async def backfill(app: "App") -> "Backfilled":
        return await app.backfill_schedule(name, first, last, by=who, why=reason)

    done = _act(store, name, "schedule.backfill", who, f"{begin} to {end}: {reason}", backfill)
    told = f"Started {len(done.started)} flows; {done.existing} ticks had theirs already."
    _tell(as_json, {"started": done.started, "existing": done.existing}, told)


def delete_command(
    name: NameArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Delete a schedule; its flows stay. One that the code declares is back when a worker starts: pause it instead.

    \b
    redrive schedules delete nightly --why 'replaced by the hourly one'
    """
    reason, who = required_reason(why), operator(by)
    _act(store, name, "schedule.delete", who, reason, lambda app: app.delete_schedule(name))
    _tell(as_json, {"deleted": True}, f"Deleted schedule {name}.")


def _act(store: str, name: str, action: str, by: str, detail: str, do: "Callable[[App], Coroutine[Any, Any, T]]") -> T:
    """Do it to a schedule that exists, with an entry in the audit log."""

    async def act(app: "App") -> T:
        await app.find_schedule(name, ticks=0)
        async with audited(app, action, name, by=by, detail=detail):
            return await do(app)

    return with_app(store, act)


def _tell(as_json: bool, data: dict[str, Any], text: str) -> None:
    if as_json:
        print_json(data)
    else:
        typer.echo(text)


def as_data(view: "ScheduleView") -> dict[str, Any]:
    """Return the schedule as JSON shows it: with times in ISO 8601."""
    import msgspec

    def shown(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: shown(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [format_utc(one) if name == "next_ticks" else shown(one) for one in value]
        return format_utc(value) if name in _TIMES else value

    data: dict[str, Any] = shown(msgspec.to_builtins(view))
    return data


def _row(view: "ScheduleView") -> tuple[str, ...]:
    last = view.last_runs[0] if view.last_runs else None
    return (
        view.name,
        view.state,
        _when(view),
        format_utc(view.next_at) or "",
        view.definition,
        *map(str, (view.started, view.overlapped, view.missed)),
        "" if last is None else f"{last.status or 'removed'} {last.flow_id}",
    )


def _when(view: "ScheduleView") -> str:
    from redrive.formatting.times import format_duration

    if view.cron is not None:
        return f"{view.cron} {view.timezone}"
    return f"every {format_duration(view.every)}" if view.every is not None else f"at {format_utc(view.at)}"


def _print(view: "ScheduleView") -> None:
    from redrive.formatting.text import terminal_text
    from redrive.formatting.times import format_duration

    lines = [
        f"Schedule {view.name} is {view.state}: {view.definition}, {_when(view)}",
        f"  overlap {view.overlap}, catch up {format_duration(view.catch_up)}, jitter {format_duration(view.jitter)}, "
        f"queue {view.queue}",
        f"  started {view.started}, skipped {view.overlapped} by overlap and {view.missed} that were missed",
    ]
    if view.pause is not None:
        lines.append(f"  paused by {view.pause.by} at {format_utc(view.pause.at)}: {view.pause.why}")
    lines += [f"  next     {format_utc(tick)}" for tick in view.next_ticks]
    if view.pending is not None:
        lines.append(f"  waits    {format_utc(view.pending)}, for the running flow to end")
    lines += [
        f"  flow     {run.flow_id} {run.status or 'removed'}, "
        + (f"started by {run.by} ({run.why})" if run.by else f"tick {format_utc(run.tick)}")
        for run in view.last_runs
    ]
    lines += [f"  skipped  {format_utc(skip.tick)}, {skip.reason}" for skip in view.last_skips]
    typer.echo("\n".join(map(terminal_text, lines)))


def _read_time(option: str, text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{option}: {text!r:.40} is not a time; use 2030-01-31 or 2030-01-31T02:00Z") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _read_tags(given: list[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one:
            raise BadInput(f"--tag: {one!r:.60} is not a tag; write NAME=TEXT")
    return dict(one.split("=", 1) for one in given)
