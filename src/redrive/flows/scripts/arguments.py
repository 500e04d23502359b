"""Checks the arguments of calls to functions of a script."""

from collections.abc import Sequence

from redrive.expressions.near_names import near_name
from redrive.flows.scripts.nodes import Function


def argument_problem(function: Function, positional: int, named: Sequence[str]) -> str | None:
    """What is wrong with the arguments of a call; None when they fit."""
    parameters = [one.name for one in function.parameters]
    takes = f"{function.name} takes {', '.join(parameters) or 'no arguments'}"
    if positional > len(parameters):
        return f"{takes}; this call has {positional} arguments"
    for name in named:
        if name not in parameters:
            close = near_name(name, parameters)
            return f"{function.name} has no parameter {name!r}; " + (f"did you mean {close!r}?" if close else takes)
        if name in parameters[:positional]:
            return f"{name!r} is given twice, by its position and by its name"
    given = {*parameters[:positional], *named}
    missing = [one.name for one in function.parameters if one.default is None and one.name not in given]
    return f"{function.name} lacks {', '.join(missing)}" if missing else None
