"""From a JSON object to the arguments of a workflow or an action."""

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import msgspec

from redrive.errors import ArgumentsError, DeserializationError
from redrive.failures.redaction import redact

if TYPE_CHECKING:
    from redrive.flows.action import Action
    from redrive.flows.workflow import Workflow

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments by position and by name."""

_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def call_by_names(definition: "type[Workflow] | Action[Any, Any]", data: Mapping[str, Any], what: str) -> Call:
    """The arguments that the object gives, by the type hints of the definition. Errors call the object `what`."""
    is_workflow = isinstance(definition, type)
    function: Any = definition.run if is_workflow else definition.function  # type: ignore[union-attr]  # one of the two
    parameters = list(inspect.signature(function).parameters.values())[1 if is_workflow else 0 :]
    check_names(data, parameters, what)
    try:
        values = definition.signature.read_arguments(msgspec.json.encode(data).decode())
    except DeserializationError as error:
        raise ArgumentsError(f"{what} does not fit: {redact(str(error.__cause__ or error), 300)}") from None
    return _as_call(definition.signature, values, parameters)


def unknown_name(name: str, known: list[str]) -> str:
    """What to say about an argument that there is not."""
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it takes: {', '.join(known) or 'none'}"
    return f"no argument is named {redact(name, 60)!r}; {hint}"


def check_names(data: Mapping[str, Any], parameters: list[inspect.Parameter], what: str) -> None:
    """ArgumentsError for a name that is no parameter, or for parameters that have no value."""
    known = [_STARS.get(one.kind, "") + one.name for one in parameters]
    for name in data:
        if name not in known:
            raise ArgumentsError(unknown_name(name, known), name)
    missing = [
        one.name for one in parameters if one.default is one.empty and one.kind not in _STARS and one.name not in data
    ]
    if missing:
        raise ArgumentsError(f"{what} lacks {', '.join(missing)}", missing[0])


def with_more_names(function: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The object as it is stored, where the function takes any further names (`**kwargs`)."""
    parameters = inspect.signature(function).parameters.values()
    more = next((one.name for one in parameters if one.kind is one.VAR_KEYWORD), None)
    named = {one.name for one in parameters if one.kind not in _STARS}
    if more is None or data.keys() <= named:
        return dict(data)
    kept = {name: value for name, value in data.items() if name in named}
    return kept | {f"**{more}": {name: value for name, value in data.items() if name not in named}}


def _as_call(signature: Any, values: dict[str, Any], parameters: list[inspect.Parameter]) -> Call:
    """By position as far as that goes: `key`, `queue` and the like may be names of arguments too."""
    args: tuple[Any, ...]
    args, kwargs = signature.call_with(lambda *args, **kwargs: (args, kwargs), values)
    for one in parameters[len(args) :]:
        if one.kind is not one.POSITIONAL_OR_KEYWORD or one.name not in kwargs:
            break
        args = (*args, kwargs.pop(one.name))
    return args, kwargs
