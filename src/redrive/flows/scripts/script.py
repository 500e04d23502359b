"""A named script, as flows run it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from redrive.errors import ArgumentsError, DeserializationError, ScriptError
from redrive.failures.redaction import redact
from redrive.flows.flow_call import FlowCall
from redrive.flows.registry import SCRIPT, Registry
from redrive.flows.scripts import nodes
from redrive.flows.scripts.checking import check
from redrive.flows.scripts.interpreter import Program, program_of
from redrive.flows.scripts.parsing import parse
from redrive.flows.values.json_form import JsonForm
from redrive.near_names import did_you_mean

LONGEST_NAME = 200


NO_INPUTS: Mapping[str, Any] = MappingProxyType({})


class ScriptInput(msgspec.Struct, frozen=True, kw_only=True):
    """The stored input of a script flow. It includes the text, so that a changed script does not change the flow."""

    text: str
    function: str
    inputs: dict[str, Any] = {}


class Script:
    """`Script("orders", text)` parses a script; ScriptError with all its problems.

    source: what errors call the text; the name by default.
    """

    def __init__(self, name: str, text: str, source: str | None = None) -> None:
        if not isinstance(name, str) or not name or len(name) > LONGEST_NAME or "\0" in name:
            raise ValueError(f"{name!r:.60} is not a name for a script; use 1 to {LONGEST_NAME} characters")
        self.name = name
        self.parsed = parse(text, name if source is None else source)

    @property
    def text(self) -> str:
        return self.parsed.text

    def function(self, name: str | None = None) -> nodes.Function:
        """The function that a flow runs: `main` or the only one by default."""
        return _function(self.parsed, self.name, name)

    def call(self, inputs: Mapping[str, Any] = NO_INPUTS, *, function: str | None = None) -> FlowCall[Any]:
        """The script with its inputs, ready to be started: by default its `main`, or its only function."""
        return FlowCall("script", self, inputs, function=function)

    def input_for(self, inputs: Mapping[str, Any], function: str | None = None) -> str:
        """The stored input of a flow; ArgumentsError when the inputs do not fit the function's parameters.

        ScriptError when the checker finds errors: such a script would fail half way, with its first actions done.
        """
        node = self.function(function)
        wrong = [one for one in check(self.parsed) if one.severity == "error"]
        if wrong:
            raise ScriptError(wrong)
        check_inputs(node, inputs)
        # Refuses what JSON would change.
        JsonForm(dict[str, Any], f"script {self.name}: its inputs").write(dict(inputs))
        stored = ScriptInput(text=self.text, function=node.name, inputs=dict(inputs))
        return msgspec.json.encode(stored, order="deterministic").decode()

    def __repr__(self) -> str:
        return f"<script {self.name}>"


def check_inputs(function: nodes.Function, inputs: Mapping[str, Any]) -> None:
    """ArgumentsError unless each input is a parameter, and each parameter without a default has an input."""
    known = [one.name for one in function.parameters]
    for name in inputs:
        if name not in known:
            hint = did_you_mean(name, known, f"the inputs are: {', '.join(known) or 'none'}")
            raise ArgumentsError(f"no input is named {redact(name, 60)!r}; {hint}", name)
    missing = [one.name for one in function.parameters if one.default is None and one.name not in inputs]
    if missing:
        raise ArgumentsError(f"the inputs lack {', '.join(missing)}", missing[0])


def read_stored(text: str) -> ScriptInput:
    try:
        return msgspec.json.decode(text, type=ScriptInput)
    except msgspec.MsgspecError as error:
        raise DeserializationError(f"the stored input of this script flow cannot be read: {error}") from None


def read_script_input(text: str, name: str) -> tuple[Program, ScriptInput]:
    """The program and the stored input of a flow; DeserializationError when it cannot be run."""
    stored = read_stored(text)
    try:
        program = program_of(stored.text, name)
        check_inputs(_function(program.script, name, stored.function), stored.inputs)
    except ValueError as error:
        raise DeserializationError(f"script {name}: {error}") from None
    return program, stored


def _function(script: nodes.ScriptTree, name: str, wanted: str | None) -> nodes.Function:
    known = list(script.functions)
    if wanted is None:
        if script.entry is None:
            raise ValueError(f"script {name} has no function main; name the one to run: {', '.join(known)}")
        return script.entry
    found = script.functions.get(wanted)
    if found is None:
        hint = did_you_mean(wanted, known, f"it has: {', '.join(known)}")
        raise ValueError(f"script {name} has no function {redact(wanted, 60)!r}; {hint}")
    return found


SCRIPTS: Registry[Script] = Registry(SCRIPT)
script_named = SCRIPTS.named


def register_script(script: Script) -> None:
    """Make the script known by its name, in place of an older one; flows keep the text that they were started with."""
    SCRIPTS.add(script.name, script)


def registered_scripts() -> tuple[Script, ...]:
    return tuple(SCRIPTS.by_name.values())
