"""`redrive flows steps`: list the steps of a flow."""

from typing import TYPE_CHECKING

import msgspec
import typer

from redrive.cli.options.shared import FlowArgument, StoreOption
from redrive.cli.output import JsonOption, print_json, print_table
from redrive.cli.store_access import flow_id_of, with_app
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redrive.client.app import App
    from redrive.client.step_views import StepView

# States of a step that say more than those of its items, which have completed.
_AFTER_COMPLETION = ("compensating", "compensated", "uncompensated")
COLUMNS = ("step", "state", "item", "attempts", "eligible", "ready", "next attempt", "why")


def steps_command(flow: FlowArgument, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List the steps of a flow with their work items: attempts made, and whether another one may follow.

    \b
    redrive flows steps 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2
    """

    async def find(app: "App") -> "list[StepView]":
        return await app.steps_of(await flow_id_of(app, flow))

    steps = with_app(store, find)
    if as_json:
        print_json(msgspec.to_builtins(steps))
    elif not steps:
        typer.echo("The flow has no steps yet.")
    else:
        print_table(COLUMNS, _rows(steps, SYSTEM_CLOCK.wall()))


def _rows(steps: "list[StepView]", now: float) -> "Iterator[tuple[str, ...]]":
    for step in steps:
        if not step.items:
            yield (step.name, step.state, "", "", "", "", "", step.why or "")
        for item in step.items:
            allowed = "" if item.max_attempts is None else f" of {item.max_attempts}"
            yield (
                step.name,
                step.state if step.state in _AFTER_COMPLETION else item.state,
                str(item.index),
                f"{item.attempts}{allowed}",
                "yes" if item.retry_eligible else "no",
                "yes" if item.ready else "no",
                "" if item.next_retry_at is None else _until(item.next_retry_at - now),
                item.reason if item.state == "completed" else item.error or item.reason,
            )


def _until(seconds: float) -> str:
    from redrive.formatting.times import format_duration

    return "now" if seconds <= 0 else f"in {format_duration(float(round(seconds)))}"
