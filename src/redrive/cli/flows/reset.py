"""`redrive flows reset`: try a step again now."""

from redrive.cli.flows.manual_resolution import IndexOption, StepArgument, resolve_step
from redrive.cli.options import ByOption, FlowArgument, StoreOption, WhyOption


def reset_command(
    flow: FlowArgument,
    step: StepArgument,
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
) -> None:
    """Try a waiting or failed step again now, with a fresh allowance of attempts; the flow continues from there.

    \b
    redrive flows reset 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 charge --why 'the bank is back'
    """
    resolve_step("reset", flow, step, index, why, by, store)
