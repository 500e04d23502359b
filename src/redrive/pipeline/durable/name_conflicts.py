"""Two pipelines may share a name only if their stages are the same, or their module was reloaded."""

import inspect
from collections.abc import Mapping
from typing import Any

from redrive.errors import PipelineError
from redrive.pipeline.stage import StageSpec

Specs = Mapping[str, StageSpec]


def check_same_or_reloaded(name: str, known: Specs, new: Specs) -> None:
    """Raise PipelineError if flows of one pipeline would be carried out by stages of the other."""
    differing = [one for one in {**known, **new} if _differ(known.get(one), new.get(one))]
    in_both = [one for one in differing if one in known and one in new]
    other = [one for one in in_both if not _is_reloaded(known[one], new[one])]
    if not other and in_both:
        # A reloaded module may add or remove stages.
        return
    first = next(iter(other or differing), None)
    if first is None:
        return
    if first not in new:
        how = f"with a stage {first!r} that this one does not have"
    else:
        how = f"with another stage {first!r}" if first in known else f"without a stage {first!r}"
    raise PipelineError(
        f"pipeline {name!r} is already registered {how}; create it once and use that, or rename this one: "
        "pipeline.with_name(...)"
    )


def _differ(one: StageSpec | None, other: StageSpec | None) -> bool:
    return one is not other and (one is None or other is None or not one.same_as(other))


def _is_reloaded(known: StageSpec, new: StageSpec) -> bool:
    """Whether the module of the stage was executed again: same name and module, but another class or function."""
    one, other = _definition(known.stage), _definition(new.stage)
    modules = {one.__module__, other.__module__}
    # Local functions and lambdas are created anew each time: an equal name proves nothing.
    same_name = one.__qualname__ == other.__qualname__ and "<" not in one.__qualname__
    # The main program is loaded again when another module imports it.
    return one is not other and same_name and (len(modules) == 1 or "__main__" in modules)


def _definition(stage: Any) -> Any:
    """Return the function, unwrapped, or the class of a stage."""
    function = inspect.unwrap(getattr(stage, "__func__", stage))
    return function if inspect.isfunction(function) else type(stage)
