"""`redrive steps list`: list the step catalogue."""

from typing import TYPE_CHECKING, Any

import typer

from redrive.cli.options import StoreOption
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

    async def find(app: "App") -> "list[StepSpec]":
        return await app.steps()

    found = with_app(store, find)
    if as_json:
        from redrive.flows.graphs.notation.step_writing import step_as_data

        print_json({"steps": {step.name: _without_name(step_as_data(step)) for step in found}})
    elif not found:
        typer.echo("The catalogue has no steps; add some: redrive steps add FILE")
    else:
        rows = [(step.name, _handler(step), ", ".join(step.inputs), ", ".join(step.outputs)) for step in found]
        print_table(("step", "handler", "inputs", "outputs"), rows, whole="step")


def _handler(step: "StepSpec") -> str:
    from redrive.failures.redaction import redact
    from redrive.flows.graphs.spec import ActionHandler

    return redact(step.handler.action if isinstance(step.handler, ActionHandler) else step.handler.endpoint, 100)


def _without_name(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "name"}
