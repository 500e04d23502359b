"""`redrive explain`: what happened to a flow and why, what it waits for, and what to do next."""

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options.shared import FlowArgument, StoreOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import flow_id_of, refusals_as_bad_input, store_option, with_app

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.explain.explanation import Explanation

ArchiveOption = Annotated[
    str,
    typer.Option(
        "--archive", metavar="FILE", help="Read the flow from a file of `redrive archive`, or a folder of them."
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Show every step and attempt of a long flow.")]


RunOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Explain run N of a flow that continued as new.")
]


def explain_command(
    flow: FlowArgument,
    everything: AllOption = False,
    run: RunOption = None,
    archive: ArchiveOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Explain a flow: where it stands, why each attempt failed and what was decided, and what to do next.

    \b
    redrive explain 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2
    redrive explain 0197f2a4 --json
    redrive explain order-17
    redrive explain counter --run 3
    redrive explain order-17 --archive archive/until-2026-10-20.jsonl.gz
    """
    import msgspec

    async def explain(app: "App") -> "Explanation":
        return await app.explain(await flow_id_of(app, flow), run=run)

    if archive and store:
        raise BadInput("--archive and --store are both given; use one of them")
    explanation = _explain_archived(archive, flow) if archive else with_app(store, explain)
    if as_json:
        print_json(msgspec.to_builtins(explanation))
    else:
        print_explanation(explanation, store, everything)


def _explain_archived(archive: str, flow: str) -> "Explanation":
    from redrive.assembly import reader_of_archives
    from redrive.client.archive import explain_archived
    from redrive.determinism.clock import SYSTEM_CLOCK

    with refusals_as_bad_input():
        try:
            return explain_archived(archive, flow, SYSTEM_CLOCK.wall(), reader_of_archives(archive))
        except OSError as error:
            raise BadInput(f"--archive {archive}: {error.strerror or error}") from None


def print_explanation(explanation: "Explanation", store: str, everything: bool = False) -> None:
    from redrive.explain.explanation import explain_text

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    typer.echo(explain_text(explanation, everything=everything, options=store_option(store), width=width))
