"""`redrive steps add`: add steps to the catalogue."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.graph_files import read_steps
from redrive.cli.options import StoreOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def add_command(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="YAML or JSON: a step with its name, or several under `steps`."),
    ],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add steps to the catalogue, replacing those with the same name. Running flows keep the steps they began with.

    \b
    redrive steps add reserve.yaml ship.yaml
    """
    wanted = [step for file in files for step in read_steps(file)]

    async def add(app: "App") -> list[bool]:
        try:
            return [await app.register_step(step) for step in wanted]
        except ValueError as error:
            raise BadInput(str(error)) from error

    new = with_app(store, add, creates=True)
    if as_json:
        print_json({"steps": [{"name": step.name, "new": is_new} for step, is_new in zip(wanted, new, strict=True)]})
        return
    for step, is_new in zip(wanted, new, strict=True):
        typer.echo(f"{'added' if is_new else 'replaced'} {step.name}")
