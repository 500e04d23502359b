"""Resolve a step of a flow manually: reset it, complete it, or resolve it without outputs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options import operator, required_reason
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App

StepArgument = Annotated[str, typer.Argument(metavar="STEP", help="The name of the step, or of the action.")]
IndexOption = Annotated[
    int,
    typer.Option("--index", min=-1, help="Which of its work items, from 0; needed if several are unfinished."),
]


def resolve_step(verb: str, flow: str, step: str, index: int, why: str, by: str, store: str, *outputs: Any) -> None:
    """Leave a request to reset, complete or resolve the step in the flow's inbox."""
    reason, name = required_reason(why), operator(by)

    async def send(app: "App") -> None:
        from redrive.errors import FlowFinishedError, InvalidStateError, UnknownStepError

        request: Any = getattr(app, f"{verb}_step")
        try:
            await request(flow, step, *outputs, index=None if index < 0 else index, by=name, why=reason)
        except (UnknownStepError, InvalidStateError, FlowFinishedError, ValueError) as error:
            raise BadInput(str(error)) from None

    with_app(store, send)
    typer.echo(f"Asked flow {flow} to {verb} {step}.")
