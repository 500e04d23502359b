"""From --input to the arguments of a workflow or an action."""

import inspect
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec
import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.definitions import Call, Definition
from redrive.failures.redaction import redact

InputOption = Annotated[
    str, typer.Option("--input", metavar="JSON", help="The arguments by their names, as a JSON object.")
]

_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def read_input(definition: Definition, text: str) -> Call:
    """The arguments that the JSON object gives, by the type hints of the definition."""
    from redrive.flows.values import NotReadable

    signature = definition.what.signature
    function: Any = definition.what.run if isinstance(definition.what, type) else definition.what.function
    try:
        data = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadInput(f"--input is no JSON: {redact(str(error), 200)}; write --input '{{\"name\": ...}}'") from None
    if not isinstance(data, dict):
        raise BadInput(f"--input is no JSON object but {redact(text, 60)}; write --input '{{\"name\": ...}}'")
    parameters = list(inspect.signature(function).parameters.values())[1 if isinstance(definition.what, type) else 0 :]
    _check_names(definition, data, parameters)
    try:
        values = signature.read_arguments(text)
    except NotReadable as error:
        said = str(error.__cause__ or error)
        raise BadInput(f"{definition.name}: --input does not fit: {redact(said, 300)}") from None
    return _as_call(signature, values, parameters)


def _check_names(definition: Definition, data: dict[str, Any], parameters: list[inspect.Parameter]) -> None:
    known = [_STARS.get(one.kind, "") + one.name for one in parameters]
    for name in data:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes: {', '.join(known) or 'none'}"
            raise BadInput(f"{definition.name}: no argument is named {redact(name, 60)!r}; {hint}")
    missing = [
        one.name for one in parameters if one.default is one.empty and one.kind not in _STARS and one.name not in data
    ]
    if missing:
        raise BadInput(f"{definition.name}: --input lacks {', '.join(missing)}")


def _as_call(signature: Any, values: dict[str, Any], parameters: list[inspect.Parameter]) -> Call:
    """By position as far as that goes: `key`, `queue` and the like may be names of arguments too."""
    args: tuple[Any, ...]
    args, kwargs = signature.call_with(lambda *args, **kwargs: (args, kwargs), values)
    for one in parameters[len(args) :]:
        if one.kind is not one.POSITIONAL_OR_KEYWORD or one.name not in kwargs:
            break
        args = (*args, kwargs.pop(one.name))
    return args, kwargs
