"""Runs scripts on the loop of workflows."""

from collections.abc import Mapping
from typing import Any

from redrive.flows.scripts import nodes
from redrive.flows.scripts.compiled_calls import CompiledFunction
from redrive.flows.scripts.compiled_statements import Statements
from redrive.flows.scripts.execution import Execution, Frame
from redrive.flows.scripts.parsing import parse
from redrive.flows.scripts.variables import variables_of

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

    async def run(self, name: str, function: str, inputs: Mapping[str, Any]) -> Any:
        """The result of a function; `name` is what errors call the script."""
        return await self._functions[function].run(Frame(Execution(name), dict(inputs), 1, 0))


def program_of(text: str, source: str) -> Program:
    """Made once: many flows run the same text. ScriptError when it makes no sense."""
    program = _programs.get(text)
    if program is None:
        program = Program(parse(text, source))
        if len(_programs) >= MOST_KEPT or len(text) + sum(map(len, _programs)) > LONGEST_KEPT:
            _programs.clear()
        _programs[text] = program
    return program
