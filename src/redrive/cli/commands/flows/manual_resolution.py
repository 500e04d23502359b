"""`redrive flows reset`, `complete` and `resolve`: resolve a step of a flow manually."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.options.shared import ByOption, FlowArgument, StoreOption, WhyOption, operator, required_reason
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import flow_id_of, with_app

if TYPE_CHECKING:
    from redrive.client.app import App

StepArgument = Annotated[str, typer.Argument(metavar="STEP", help="The name of the step, or of the action.")]
IndexOption = Annotated[
    int,
    typer.Option(
        "--index", min=-1, show_default=False, help="Which of its work items, from 0; needed if several are unfinished."
    ),
]


def reset_command(
    flow: FlowArgument,
    step: StepArgument,
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Try a waiting or failed step again now, with a fresh allowance of attempts; the flow continues from there.

    \b
    redrive flows reset 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 charge --why 'the bank is back'
    """
    _send("reset", flow, step, index, why, by, store, as_json)


def complete_command(
    flow: FlowArgument,
    step: StepArgument,
    text: Annotated[str, typer.Option("--outputs", metavar="JSON", help="The outputs that the step would have had.")],
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Complete a step manually, with the outputs that it would have had.

    \b
    redrive flows complete 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 charge --outputs '{"payment": "cash"}' --why paid
    """
    try:
        outputs = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadInput(f"--outputs is not valid JSON: {error}; write --outputs '{{\"name\": ...}}'") from None
    _send("complete", flow, step, index, why, by, store, as_json, outputs)


def resolve_command(
    flow: FlowArgument,
    step: StepArgument,
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Resolve a step manually, without outputs: steps that depend on it go on, steps that need its outputs are skipped.

    \b
    redrive flows resolve 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 mail --why 'called them'
    """
    _send("resolve", flow, step, index, why, by, store, as_json)


def _send(
    verb: str, flow: str, step: str, index: int, why: str, by: str, store: str, as_json: bool, *outputs: Any
) -> None:
    """Leave a request to reset, complete or resolve the step in the flow's inbox."""
    reason, name = required_reason(why), operator(by)

    async def send(app: "App") -> str:
        from redrive.errors import FlowFinishedError, InvalidStateError, UnknownStepError

        request: Any = getattr(app, f"{verb}_step")
        flow_id = await flow_id_of(app, flow)
        try:
            async with audited(app, f"step.{verb}", f"{flow_id}/{step}", by=name, detail=reason):
                await request(flow_id, step, *outputs, index=None if index < 0 else index, by=name, why=reason)
        except (UnknownStepError, InvalidStateError, FlowFinishedError, ValueError) as error:
            raise BadInput(str(error)) from None
        return flow_id

    flow_id = with_app(store, send)
    if as_json:
        print_json({"id": flow_id, "step": step, "requested": verb, "by": name, "why": reason})
    else:
        typer.echo(f"Asked flow {flow_id} to {verb} {step}.")
