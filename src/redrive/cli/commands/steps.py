"""`redrive steps`: list the catalogue of steps, add steps to it and drop them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.definitions.files import read_steps
from redrive.cli.options.shared import StoreOption
from redrive.cli.output import JsonOption, print_json, print_table
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.flows.graphs.spec import StepSpec


def list_command(store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List the steps of the catalogue by name. `redrive steps add` reads what --json prints.

    \b
    redrive steps
    redrive steps --json
    """
    from redrive.flows.graphs.spec import StepSpec

    entries = with_app(store, lambda app: app.catalogue())
    found = [step for step in entries if isinstance(step, StepSpec)]
    for broken in entries:
        if not isinstance(broken, StepSpec):
            typer.echo(f"step {broken.name} is broken: {broken.broken}", err=True)
    if as_json:
        from redrive.flows.graphs.notation.step_writing import step_as_data

        print_json({"steps": {step.name: _without_name(step_as_data(step)) for step in found}})
    elif not entries:
        typer.echo("The catalogue has no steps; add some: redrive steps add FILE")
    else:
        rows = [(step.name, _handler(step), ", ".join(step.inputs), ", ".join(step.outputs)) for step in found]
        print_table(("step", "handler", "inputs", "outputs"), rows, whole="step")


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

    async def register(app: "App", step: "StepSpec") -> bool:
        async with audited(app, "step.register", step.name):
            return await app.register_step(step)

    async def add(app: "App") -> list[bool]:
        try:
            return [await register(app, step) for step in wanted]
        except ValueError as error:
            raise BadInput(str(error)) from error

    new = with_app(store, add, creates=True)
    if as_json:
        print_json({"steps": [{"name": step.name, "new": is_new} for step, is_new in zip(wanted, new, strict=True)]})
        return
    for step, is_new in zip(wanted, new, strict=True):
        typer.echo(f"{'added' if is_new else 'replaced'} {step.name}")


def drop_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of steps.")],
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Remove steps from the catalogue. Running flows keep the steps they began with.

    \b
    redrive steps drop reserve
    """

    async def drop(app: "App") -> list[str]:
        known = [step.name for step in await app.catalogue()]
        if unknown := [name for name in names if name not in known]:
            raise BadInput(f"no step in the catalogue is named {unknown[0]!r}; list them: redrive steps")
        dropped = []
        for name in dict.fromkeys(names):
            async with audited(app, "step.drop", name):
                if await app.drop_step(name):
                    dropped.append(name)
        return dropped

    dropped = with_app(store, drop)
    if as_json:
        print_json({"dropped": dropped})
    else:
        for name in dropped:
            typer.echo(f"dropped {name}")


def _handler(step: "StepSpec") -> str:
    from redrive.failures.redaction import redact
    from redrive.flows.graphs.spec import ActionHandler

    return redact(step.handler.action if isinstance(step.handler, ActionHandler) else step.handler.endpoint, 100)


def _without_name(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "name"}
