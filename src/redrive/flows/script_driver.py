"""Run a script's text on the loop of workflows."""

from collections.abc import Coroutine
from typing import Any

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.driver import NO_ACTIONS
from redrive.flows.scripts.interpreter import Program
from redrive.flows.scripts.script import ScriptInput, read_script_input
from redrive.flows.values.json_form import JsonForm
from redrive.flows.workflows.driver import CodeDriver
from redrive.flows.workflows.handlers import NO_HANDLERS, Handler, Handlers


class ScriptCode:
    """A script's function, with the stored input of one flow. Actions return plain data, whatever their type hints."""

    __slots__ = ("_input", "_name", "_read")

    def __init__(self, name: str, input: str) -> None:  # noqa: A002 - as the record calls it
        self._name = name
        self._input = input
        self._read: tuple[Program, ScriptInput] | None = None

    def required_actions(self) -> frozenset[str]:
        try:
            return self.read_input()[0].actions
        except DeserializationError:
            # The flow fails with this error when it starts.
            return NO_ACTIONS

    def read_input(self) -> tuple[Program, ScriptInput]:
        if self._read is None:
            self._read = read_script_input(self._input, self._name)
        return self._read

    @property
    def handlers(self) -> Handlers:
        return NO_HANDLERS

    def handle(self, handler: Handler, values: dict[str, Any]) -> Any:
        raise NotImplementedError

    def call(self, values: tuple[Program, ScriptInput]) -> Coroutine[Any, Any, Any]:
        program, stored = values
        return program.run(stored.function, stored.inputs)

    def read_result(self, step: str, result: str, read: Any) -> Any:
        return msgspec.json.decode(result)

    def write_result(self, value: Any) -> str:
        return JsonForm(Any, f"script {self._name}: its result").write(value)[0]


def script_driver(name: str, flow_id: str, input: str) -> CodeDriver:  # noqa: A002 - as above
    return CodeDriver(flow_id, ScriptCode(name, input))
