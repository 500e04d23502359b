"""Runs scripts on the loop of workflows."""

import functools
from collections.abc import Mapping
from typing import Any

from redrive.errors import ScriptLimitError
from redrive.flows.scripts import nodes
from redrive.flows.scripts.compiled_calls import CompiledFunction
from redrive.flows.scripts.compiled_statements import Statements
from redrive.flows.scripts.execution import Execution, Frame, note_place, place_of
from redrive.flows.scripts.limits import LONGEST_SCRIPT
from redrive.flows.scripts.parsing import parse, too_long
from redrive.flows.scripts.sizes import sendable
from redrive.flows.scripts.variables import variables_of
from redrive.flows.scripts.walking import walk

MOST_KEPT = 100
LONGEST_KEPT = 4_000_000
"""Programs that are remembered, and characters of their texts."""

_programs: dict[str, "Program"] = {}


class Program:
    """A script that can be run, any number of times."""

    def __init__(self, script: nodes.Script) -> None:
        self.script = script
        self._functions = {name: CompiledFunction(node) for name, node in script.functions.items()}
        for function in self._functions.values():
            node = function.node
            # As in Python, defaults see nothing of the function itself.
            outside = Statements(self._functions, frozenset())
            function.defaults = {
                one.name: outside.expression(one.default) for one in node.parameters if one.default is not None
            }
            function.body = Statements(self._functions, variables_of(node)).block(node.body)

    @functools.cached_property
    def actions(self) -> frozenset[str]:
        """All that it may call, in whichever function."""
        inside = walk(*self.script.functions.values())
        return frozenset(node.name for node in inside if isinstance(node, nodes.ActionCall))

    async def run(self, name: str, function: str, inputs: Mapping[str, Any]) -> Any:
        """The result of a function; `name` is what errors call the script."""
        frame = Frame(Execution(name), dict(inputs), 1, 0)
        try:
            result = await self._functions[function].run(frame)
        except MemoryError as error:
            raise ScriptLimitError(
                f"{place_of(error, name)}: no memory was left; work with large data in an action"
            ) from None
        try:
            return sendable(frame, result)
        except Exception as error:
            note_place(error, name, frame.returned_at)
            raise


def program_of(text: str, source: str, longest: int = LONGEST_SCRIPT) -> Program:
    """Made once: many flows run the same text. ScriptError when it makes no sense, or is too long."""
    program = None if too_long(text, longest) else _programs.get(text)
    if program is None:
        program = Program(parse(text, source, longest))
        if len(_programs) >= MOST_KEPT or len(text) + sum(map(len, _programs)) > LONGEST_KEPT:
            _programs.clear()
        _programs[text] = program
    return program
