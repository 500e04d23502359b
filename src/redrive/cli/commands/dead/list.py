"""`redrive dead list`: list dead letters, oldest first."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.dead.selection import (
    ErrorOption,
    Filters,
    KindOption,
    StepOption,
    as_data,
    letters_of,
    replace,
)
from redrive.cli.options.shared import LARGEST_PAGE, DefinitionOption, LimitOption, QueueOption, StoreOption
from redrive.cli.output import JsonOption, format_ago, print_json, print_table
from redrive.cli.store_access import with_app
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.records import DeadLetter

STATES = ("dead", "redriven", "discarded", "any")


def list_command(
    definition: DefinitionOption = "",
    step: StepOption = "",
    kind: KindOption = "",
    error: ErrorOption = "",
    queue: QueueOption = "",
    state: Annotated[str, typer.Option(metavar="STATE", help=f"One of {', '.join(STATES)}.")] = "dead",
    limit: LimitOption = 50,
    after: Annotated[str, typer.Option(metavar="FLOW", help="The next page: dead letters after this one.")] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List dead letters, oldest first.

    \b
    redrive dead
    redrive dead --definition Billing --step charge --kind exhausted
    """
    if state not in STATES:
        raise BadInput(f"--state: {state!r} is not a valid state; use one of {', '.join(STATES)}")

    async def find(app: "App") -> "list[DeadLetter]":
        query = await Filters(definition, step, kind, error, queue).query(app)
        last = (await letters_of(app, [after], None))[0].cursor if after else None
        return await app.dead_letters(
            replace(query, state=None if state == "any" else state, after=last, limit=limit + 1)
        )

    found = with_app(store, find)
    shown, more = found[:limit], len(found) > limit
    if as_json:
        print_json({"dead_letters": [as_data(letter) for letter in shown], "more": more})
        return
    if not shown:
        typer.echo("No dead letters match.")
        return
    _print(shown, with_state=state == "any")
    if more:
        last_id = shown[-1].flow_id
        typer.echo(f"... there are more: add --after {last_id}, or --limit up to {LARGEST_PAGE}", err=True)


def _print(letters: "list[DeadLetter]", *, with_state: bool) -> None:
    from redrive.failures.redaction import redact

    now = SYSTEM_CLOCK.wall()
    columns: tuple[str, ...] = ("flow", "definition", "step", "kind", "attempts", "error", "died")
    rows: list[tuple[str, ...]] = [
        (
            letter.flow_id,
            letter.definition,
            letter.step,
            letter.kind,
            str(letter.attempts),
            redact(f"{letter.error_type}: {letter.message}", 80),
            format_ago(now - letter.at),
        )
        for letter in letters
    ]
    if with_state:
        columns += ("state",)
        rows = [(*row, letter.state) for row, letter in zip(rows, letters, strict=True)]
    print_table(columns, rows, whole="flow")
