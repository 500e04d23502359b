"""`redrive dead redrive` and `redrive dead discard`: settle dead letters."""

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.commands.dead.selection import ErrorOption, Filters, KindOption, Selection, StepOption, select
from redrive.cli.options.shared import (
    ByOption,
    DefinitionOption,
    QueueOption,
    StoreOption,
    WhyOption,
    operator,
    required_reason,
)
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App

FlowsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[FLOW]...", help="The flows: ids, the first characters of ids, or keys.")
]
EveryOption = Annotated[bool, typer.Option("--all", help="All dead letters.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def _settling(verb: Literal["redrive", "discard"], about: str) -> Callable[..., None]:
    """Return the command that redrives or discards the selected dead letters, and prints how many were settled."""

    def command(
        flows: FlowsArgument = None,
        definition: DefinitionOption = "",
        step: StepOption = "",
        kind: KindOption = "",
        error: ErrorOption = "",
        queue: QueueOption = "",
        every: EveryOption = False,
        why: WhyOption = "",
        by: ByOption = "",
        yes: YesOption = False,
        store: StoreOption = "",
        as_json: JsonOption = False,
    ) -> None:
        filters = Filters(definition, step, kind, error, queue)
        if flows and (every or any(filters)):
            raise BadInput("name flows, or select them with filters or --all, not both")
        if not flows and not every and not any(filters):
            missing = "" if why.strip() else "; also give a reason with --why"
            raise BadInput(
                f"no dead letters are selected; name flows, use filters such as --step charge, or add --all{missing}"
            )
        reason, name = required_reason(why), operator(by)
        selection = with_app(store, lambda app: select(app, flows or [], filters))
        if not flows and selection.flow_ids and not yes:
            _confirm(verb, len(selection.flow_ids))

        from redrive.client.bulk_close import close_in_parts  # loaded here: `redrive --help` is quick

        async def settle_all(app: "App") -> list[str]:
            settle_some = app.redrive if verb == "redrive" else app.discard
            record = functools.partial(audited, app, f"dead.{verb}", by=name, detail=reason)
            return await close_in_parts(settle_some, selection.flow_ids, record, by=name, why=reason)

        settled = with_app(store, settle_all) if selection.flow_ids else []
        if as_json:
            print_json({"settled": settled, "how": verb, "by": name, "why": reason})
        else:
            _report(verb, selection, settled)

    command.__doc__ = about
    return command


def _report(verb: str, selection: Selection, settled: list[str]) -> None:
    if not selection.flow_ids:
        typer.echo("No dead letters match.")
        return
    others = len(selection.flow_ids) - len(settled)
    skipped = "were settled by someone else meanwhile, or were compensated and cannot go on"
    rest = f"; {others} {skipped}" if others else ""
    typer.echo(f"{_count(len(settled))} {'redriven' if verb == 'redrive' else 'discarded'}{rest}")
    again = sorted(selection.failed_in_script & {*settled}) if verb == "redrive" else []
    if again:
        which = f"flow {again[0]}" if len(again) == 1 else f"{len(again)} of them, such as flow {again[0]},"
        typer.echo(
            f"redrive: {which} failed in the script's own text, keeps that text, and will fail there again: "
            "correct the file, and start another flow",
            err=True,
        )


def _confirm(verb: str, number: int) -> None:
    question = f"{verb} {_count(number)}?"
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadInput(f"{question} nothing was done, because there is no terminal to ask on; add --yes")
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadInput("stopped; nothing was done")


def _count(number: int) -> str:
    from redrive.formatting.text import format_count

    return format_count(number, "dead letter")


redrive_command = _settling(
    "redrive",
    """Redrive dead flows: each continues at the step that failed. Select them by id, by filters, or all of them.

    \b
    redrive dead redrive 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the bank is back'
    redrive dead redrive --step charge --error ConnectionError --why 'the bank is back' --yes
    """,
)
discard_command = _settling(
    "discard",
    """Discard dead letters: the flows stay failed, and are no longer listed as dead.

    \b
    redrive dead discard 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'ordered twice'
    redrive dead discard --all --definition Newsletter --why 'no longer needed'
    """,
)
