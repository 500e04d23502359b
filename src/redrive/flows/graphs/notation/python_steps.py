"""Read steps that are written in Python: they are turned into the form of a file first."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redrive.errors import NotationError, PolicyError
from redrive.flows.action import Action
from redrive.flows.graphs.notation.handlers import action_of
from redrive.flows.graphs.notation.problems import Problems
from redrive.flows.graphs.notation.signature_inputs import inputs_of_action
from redrive.flows.graphs.notation.step_reading import read_named_step
from redrive.flows.graphs.notation.step_writing import input_as_data
from redrive.flows.graphs.spec import StepSpec
from redrive.flows.retry_policy import Retry, Timeout, as_policy
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.notation.place import Place
from redrive.policies.policy import Policy


def step_from_python(
    name: str,
    handler: Action[..., Any] | Callable[..., Any] | str,
    settings: Mapping[str, Any],
    for_each: str | Sequence[str],
    retry: Retry | None,
    timeout: Timeout | None,
    place: Place,
    problems: Problems,
) -> StepSpec:
    """`settings` are the keys of a step in a file."""
    data = dict(settings)
    policy = DURABLE_DEFAULT
    inputs = dict(data.get("inputs") or {})
    if isinstance(handler, str):
        data["endpoint" if "://" in handler else "action"] = handler
    else:
        with problems:
            found = _as_action(handler, place)
            data["action"] = found.name
            policy = found.policy
            inputs = _over(inputs, {key: input_as_data(one) for key, one in inputs_of_action(found).items()})
    for one in (for_each,) if isinstance(for_each, str) else for_each:
        inputs[one] = _over_one({"for_each": True}, inputs.get(one, "any"))
    if inputs:
        data["inputs"] = inputs
    with problems:
        policy = _as_policy(policy, retry, timeout, place)
    return read_named_step(name, data, place, problems, imports=False, default=policy)


def _as_action(handler: Any, place: Place) -> Action[Any, Any]:
    try:
        return action_of(handler)
    except (TypeError, ValueError) as error:
        raise place.refuse(repr(handler), str(error), "an action, a function, or an HTTP address") from None


def _as_policy(default: Policy, retry: Retry | None, timeout: Timeout | None, place: Place) -> Policy:
    try:
        return as_policy(default if retry is None else retry, timeout)
    except NotationError as error:
        raise place.at("retry").refuse(retry, error.problem, error.allowed) from None
    except PolicyError as error:
        raise place.at(error.field).refuse(error.value, "not allowed", error.allowed) from None


def _over(written: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as written, completed from the function's parameters."""
    together = dict(parameters)
    for name, one in written.items():
        together[name] = _over_one(one, parameters[name]) if name in parameters else one
    return together


def _over_one(written: Any, known: Any) -> Any:
    if not isinstance(written, Mapping):
        return written
    if "value" in written:
        return written
    return {**(known if isinstance(known, Mapping) else {"type": known}), **written}
