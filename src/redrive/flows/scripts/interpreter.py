"""Runs scripts on the loop of workflows."""

import functools
from collections.abc import Mapping
from typing import Any

from redrive.errors import ScriptLimitError
from redrive.expressions.limits import Budget, Scope
from redrive.expressions.nodes import walk
from redrive.flows.scripts.compiler import compile_script
from redrive.flows.scripts.execution import PLACE, call_function, note_place
from redrive.flows.scripts.nodes import ActionCall, ScriptTree
from redrive.flows.scripts.parsing import parse

_MOST_KEPT = 100
_LONGEST_KEPT = 4_000_000
"""Programs that are kept, and characters of their texts."""

_programs: dict[tuple[str, str], "Program"] = {}


class Program:
    """A script that can be run, any number of times. `name`: what its errors call it."""

    def __init__(self, script: ScriptTree, name: str) -> None:
        self.script = script
        self._file = f"{PLACE}{name}"

    @functools.cached_property
    def actions(self) -> frozenset[str]:
        """All actions that the script may call, in whichever function."""
        inside = walk(*self.script.functions.values())
        return frozenset(node.name for node in inside if isinstance(node, ActionCall))

    @functools.cached_property
    def _functions(self) -> Mapping[str, Any]:
        return compile_script(self.script, self._file)

    async def run(self, function: str, inputs: Mapping[str, Any]) -> Any:
        """The result of a function."""
        try:
            outside = Scope({}, Budget())
            return await call_function(outside, self._functions[function], dict(inputs))
        except MemoryError as error:
            short = ScriptLimitError("no memory was left; work with large data in an action")
            short.with_traceback(error.__traceback__)
            note_place(short, self._file)
            raise short from None
        except Exception as error:
            note_place(error, self._file)
            raise


def program_of(text: str, name: str) -> Program:
    """The program of a text, compiled once: many flows run the same. ScriptError when it cannot be read."""
    program = _programs.get((name, text))
    if program is None:
        program = Program(parse(text, name), name)
        if len(_programs) >= _MOST_KEPT or len(text) + sum(len(kept) for _, kept in _programs) > _LONGEST_KEPT:
            _programs.clear()
        _programs[name, text] = program
    return program
