"""`redrive dead discard`: settle dead letters without redriving them."""

from redrive.cli.dead.selection import ErrorOption, Filters, KindOption, StepOption
from redrive.cli.dead.settlement import EveryOption, FlowsArgument, YesOption, settle
from redrive.cli.options import ByOption, DefinitionOption, QueueOption, StoreOption, WhyOption
from redrive.cli.output import JsonOption


def discard_command(
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
    """Discard dead letters: the flows stay failed, and are no longer listed as dead.

    \b
    redrive dead discard 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'ordered twice'
    redrive dead discard --all --definition Newsletter --why 'too late for it now'
    """
    filters = Filters(definition, step, kind, error, queue)
    settle("discard", flows or [], filters, every, why, by, yes, store, as_json)
