"""A script at work: its text, interpreted on the loop of workflows."""

from collections.abc import Coroutine
from typing import Any

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.driver import NOTHING_KNOWN, CodeDriver
from redrive.flows.json_forms import JsonForm
from redrive.flows.scripts.interpreter import Program
from redrive.flows.scripts.script import ScriptInput, read_script_input


class ScriptDriver(CodeDriver):
    """Runs a script. What its actions give is plain data, whatever their type hints say."""

    def __init__(self, name: str, flow_id: str, input: str) -> None:  # noqa: A002 - what a flow is started with
        super().__init__(flow_id, input)
        self._name = name
        self._read: tuple[Program, ScriptInput] | None = None

    def needs(self) -> frozenset[str]:
        try:
            return self.read_input()[0].actions
        except DeserializationError:
            # It is told so when it begins.
            return NOTHING_KNOWN

    def read_input(self) -> tuple[Program, ScriptInput]:
        if self._read is None:
            self._read = read_script_input(self._input, self._name)
        return self._read

    def called(self, values: tuple[Program, ScriptInput]) -> Coroutine[Any, Any, Any]:
        program, stored = values
        return program.run(self._name, stored.function, stored.inputs)

    def read_result(self, step: str, result: str, read: Any) -> Any:
        # As plain data, whatever the action's type hints make of it.
        return msgspec.json.decode(result)

    def write_result(self, value: Any) -> str:
        return JsonForm(Any, f"script {self._name}: its result").write(value)[0]
