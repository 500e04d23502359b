"""`redrive flows resolve`: resolve a step manually, without outputs."""

from redrive.cli.flows.manual_resolution import IndexOption, StepArgument, resolve_step
from redrive.cli.options import ByOption, FlowArgument, StoreOption, WhyOption


def resolve_command(
    flow: FlowArgument,
    step: StepArgument,
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
) -> None:
    """Resolve a step manually, without outputs: steps that depend on it go on, steps that need its outputs are skipped.

    \b
    redrive flows resolve 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 mail --why 'called them'
    """
    resolve_step("resolve", flow, step, index, why, by, store)
