"""`redrive dead redrive`: put dead flows back to work."""

from redrive.cli.dead.selection import ErrorOption, Filters, KindOption, StepOption
from redrive.cli.dead.settlement import EveryOption, FlowsArgument, YesOption, settle
from redrive.cli.options import ByOption, DefinitionOption, QueueOption, StoreOption, WhyOption
from redrive.cli.output import JsonOption


def redrive_command(
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
    """Redrive dead flows: each continues at the step that failed. Select them by id, by filters, or all of them.

    \b
    redrive dead redrive 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the bank is back'
    redrive dead redrive --step charge --error ConnectionError --why 'the bank is back' --yes
    """
    filters = Filters(definition, step, kind, error, queue)
    settle("redrive", flows or [], filters, every, why, by, yes, store, as_json)
