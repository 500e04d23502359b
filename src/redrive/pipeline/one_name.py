"""A name belongs to one pipeline: another one may have it where its stages are the same, or were loaded again."""

import inspect
from collections.abc import Mapping
from typing import Any

from redrive.errors import PipelineError
from redrive.pipeline.stage import StageSpec

Specs = Mapping[str, StageSpec]


def check_same_or_reloaded(name: str, known: Specs, new: Specs) -> None:
    """PipelineError when flows of the one would be carried out by stages of the other."""
    differing = [one for one in {**known, **new} if _differ(known.get(one), new.get(one))]
    in_both = [one for one in differing if one in known and one in new]
    other = [one for one in in_both if not _is_reloaded(known[one], new[one])]
    if not other and in_both:
        # What is loaded again may have more stages than before, or fewer.
        return
    first = next(iter(other or differing), None)
    if first is None:
        return
    if first not in new:
        how = f"with a stage {first!r} that this one has not"
    else:
        how = f"with another stage {first!r}" if first in known else f"without a stage {first!r}"
    raise PipelineError(
        f"pipeline {name!r} is registered already, {how}; make it once and use that, or give this one another name: "
        "pipeline.with_name(...)"
    )


def _differ(one: StageSpec | None, other: StageSpec | None) -> bool:
    return one is not other and (one is None or other is None or not one.same_as(other))


def _is_reloaded(known: StageSpec, new: StageSpec) -> bool:
    """Whether the code of the stage was run again: its class or function is another one from the same place."""
    one, other = _written(known.stage), _written(new.stage)
    modules = {one.__module__, other.__module__}
    # What a function defines, and what has no name, is made anew each time: nothing says that it is the same.
    same_name = one.__qualname__ == other.__qualname__ and "<" not in one.__qualname__
    # The program that was started is loaded again where others import it.
    return one is not other and same_name and (len(modules) == 1 or "__main__" in modules)


def _written(stage: Any) -> Any:
    """What stands in the source: the function, without what was put around it, or the class."""
    function = inspect.unwrap(getattr(stage, "__func__", stage))
    return function if inspect.isfunction(function) else type(stage)
