"""What all stages of one run share."""

from typing import Literal

import msgspec

from redrive.calls.scope import Scope
from redrive.determinism.clock import Clock
from redrive.determinism.dice import Dice

OnFailure = Literal["fail_fast", "continue"]


class RunEnvironment(msgspec.Struct):
    """What all stages of a run share."""

    clock: Clock
    dice: Dice
    outer: Scope
    """The scope of the guarded call around the run."""
    outermost: bool
    """Whether there is no guarded call around the run."""
    on_failure: OnFailure
    ids: dict[str, str | None]
    """The ids that every event of the run carries."""
    stopping: bool = False
    """Whether the run is ending: no stage and no attempt may start."""
