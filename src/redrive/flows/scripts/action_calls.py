"""Prepares a call of an action: its arguments by the action's type hints, and its policy."""

from typing import Any

from redrive.errors import ArgumentsError, DeserializationError, UnknownDefinitionError
from redrive.flows.action import action_named
from redrive.flows.scripts.nodes import ActionCall, PolicyBrackets
from redrive.flows.stored_policy import DURABLE_DEFAULT, write_stored_policy
from redrive.flows.values.json_form import JsonForm
from redrive.flows.values.named_arguments import call_by_names, with_more_names
from redrive.flows.values.signature import Arguments
from redrive.policies.policy import Policy


class ActionSite:
    """A call of an action at one position of the script."""

    def __init__(self, node: ActionCall) -> None:
        self._name = node.name
        self._form = JsonForm(dict[str, Any], f"action {node.name}: its arguments")
        self._written = node.policy
        self._policies: tuple[Policy, Policy] | None = None
        """The action's own policy, and what the brackets make of it."""

    def prepared(self, values: dict[str, Any]) -> tuple[str, Arguments, Policy]:
        """What to ask the engine for."""
        try:
            action = action_named(self._name)
        except UnknownDefinitionError:
            # The engine says that nobody here can run it, and logs that like any failure.
            return self._name, Arguments(*self._form.write(values)), self._policy(DURABLE_DEFAULT)
        signature = action.signature
        try:
            typed = signature.read_arguments(self._form.write(values)[0])
        except DeserializationError:
            typed = self._read_otherwise(action, values)
        arguments = signature.call_with(lambda *args, **kwargs: signature.bind(args, kwargs), typed)
        return action.name, arguments, self._policy(action.policy)

    def _read_otherwise(self, action: Any, values: dict[str, Any]) -> dict[str, Any]:
        """Names that only `**kwargs` take; TypeError when the arguments do not fit at all."""
        values = with_more_names(action.function, values)
        try:
            call_by_names(action.signature, values, "the call")
        except ArgumentsError as error:
            raise TypeError(f"action {self._name}: {error}") from None
        typed: dict[str, Any] = action.signature.read_arguments(self._form.write(values)[0])
        return typed

    def _policy(self, own: Policy) -> Policy:
        if self._written is None:
            return own
        if self._policies is None or self._policies[0] is not own:
            policy = bracket_policy(self._written, own)
            write_stored_policy(policy)
            self._policies = own, policy
        return self._policies[1]


def bracket_policy(written: PolicyBrackets, own: Policy) -> Policy:
    """Brackets that say when to retry are the whole policy; others change only what they name."""
    if written.policy.rules:
        return written.policy
    changed = {field: getattr(written.policy, field) for field in written.reading.written}
    return own.replace(**changed)
