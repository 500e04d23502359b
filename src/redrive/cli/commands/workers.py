"""`redrive workers`: list the workers of a store."""

from typing import TYPE_CHECKING, Any

import typer

from redrive.cli.options.shared import StoreOption
from redrive.cli.output import JsonOption, format_ago, format_utc, print_json, print_table
from redrive.cli.store_access import with_app
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.leases import WorkerRecord

COLUMNS = ("worker", "version", "state", "since", "lease", "flows", "queues", "definitions")
SHOWN_DEFINITIONS = 5


def workers_command(store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List workers: since when they work, how long their lease still holds, how many flows they own, and what they run.

    A worker whose lease has expired is shown as dead until another one takes over its flows.

    \b
    redrive workers
    """

    async def find(app: "App") -> "list[WorkerRecord]":
        from redrive.explain.store_reader import all_workers

        return await all_workers(app.store)

    found, now = with_app(store, find), SYSTEM_CLOCK.wall()
    if as_json:
        print_json({"workers": [_as_data(one, now) for one in found]})
    elif not found:
        typer.echo("No worker holds a lease; start one: redrive worker MODULE")
    else:
        print_table(COLUMNS, [_row(one, now) for one in found], whole="worker")


def _as_data(worker: "WorkerRecord", now: float) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(worker)
    return data | {
        "joined_at": format_utc(worker.joined_at),
        "expires_at": format_utc(worker.expires_at),
        "lease_left": round(worker.expires_at - now, 3),
    }


def _row(worker: "WorkerRecord", now: float) -> tuple[str, ...]:
    from redrive.formatting.times import format_duration

    left = worker.expires_at - now
    more = len(worker.definitions) - SHOWN_DEFINITIONS
    return (
        worker.name,
        worker.version,
        "alive" if worker.alive else "dead",
        format_ago(now - worker.joined_at),
        f"{format_duration(float(round(left)))} left" if left > 0 else f"expired {format_ago(-left)}",
        str(worker.flows),
        "all" if worker.queues is None else ", ".join(worker.queues),
        ", ".join(worker.definitions[:SHOWN_DEFINITIONS]) + (f" and {more} more" if more > 0 else ""),
    )
