"""Turn a JSON object into the arguments of a workflow or an action."""

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.errors import ArgumentsError, DeserializationError
from redrive.failures.redaction import redact
from redrive.flows.values.signature import Signature
from redrive.near_names import did_you_mean

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments by position and by name."""

_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def call_by_names(signature: Signature, data: Mapping[str, Any], what: str) -> Call:
    """Decode the object by the type hints of the signature. Errors call the object `what`."""
    parameters = signature.parameters
    check_names(data, parameters, what)
    try:
        values = signature.read_arguments(msgspec.json.encode(data).decode())
    except DeserializationError as error:
        raise ArgumentsError(f"{what} does not fit: {redact(str(error.__cause__ or error), 300)}") from None
    return _as_call(signature, values, parameters)


def unknown_argument(name: str, known: list[str]) -> str:
    """The message about an argument that does not exist."""
    hint = did_you_mean(name, known, f"it takes: {', '.join(known) or 'none'}")
    return f"no argument is named {redact(name, 60)!r}; {hint}"


def check_names(data: Mapping[str, Any], parameters: list[inspect.Parameter], what: str) -> None:
    """Raise ArgumentsError for a name that is not a parameter, or for a required parameter without a value."""
    known = [_STARS.get(one.kind, "") + one.name for one in parameters]
    for name in data:
        if name not in known:
            raise ArgumentsError(unknown_argument(name, known), name)
    missing = [
        one.name for one in parameters if one.default is one.empty and one.kind not in _STARS and one.name not in data
    ]
    if missing:
        raise ArgumentsError(f"{what} lacks {', '.join(missing)}", missing[0])


def with_more_names(function: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The object with the names that go into `**kwargs` nested, as they are stored."""
    parameters = inspect.signature(function).parameters.values()
    more = next((one.name for one in parameters if one.kind is one.VAR_KEYWORD), None)
    named = {one.name for one in parameters if one.kind not in _STARS}
    if more is None or data.keys() <= named:
        return dict(data)
    kept = {name: value for name, value in data.items() if name in named}
    return kept | {f"**{more}": {name: value for name, value in data.items() if name not in named}}


def _as_call(signature: Signature, values: dict[str, Any], parameters: list[inspect.Parameter]) -> Call:
    """Pass arguments by position as far as possible, since `key`, `queue` and the like may also be parameters."""
    args: tuple[Any, ...]
    args, kwargs = signature.call_with(lambda *args, **kwargs: (args, kwargs), values)
    for one in parameters[len(args) :]:
        if one.kind is not one.POSITIONAL_OR_KEYWORD or one.name not in kwargs:
            break
        args = (*args, kwargs.pop(one.name))
    return args, kwargs
