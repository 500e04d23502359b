"""`redrive flows complete`: complete a step manually, with outputs."""

from typing import Annotated

import msgspec
import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.flows.manual_resolution import IndexOption, StepArgument, resolve_step
from redrive.cli.options import ByOption, FlowArgument, StoreOption, WhyOption


def complete_command(
    flow: FlowArgument,
    step: StepArgument,
    text: Annotated[str, typer.Option("--outputs", metavar="JSON", help="The outputs that the step would have had.")],
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
) -> None:
    """Complete a step manually, with the outputs that it would have had.

    \b
    redrive flows complete 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 charge --outputs '{"payment": "cash"}' --why paid
    """
    try:
        outputs = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadInput(f"--outputs is not valid JSON: {error}; write --outputs '{{\"name\": ...}}'") from None
    resolve_step("complete", flow, step, index, why, by, store, outputs)
