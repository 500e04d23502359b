"""Encode and decode the arguments and results of actions and workflows by their type hints."""

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any, Never, NoReturn, NotRequired, TypedDict, Unpack, cast, get_args, get_origin, get_type_hints

import msgspec

from redrive.errors import DeserializationError, SerializationError, TypeHintError
from redrive.flows.values.json_form import JsonForm, shown_hint
from redrive.flows.values.json_limits import LONGEST_JSON
from redrive.near_names import did_you_mean

NOT_READ: Any = object()
"""Stands for a result that has not been decoded."""
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_PLAIN = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Arguments(msgspec.Struct, eq=False, gc=False):
    """The arguments of one call, without defaults: the function's own apply when it runs."""

    encoded: str
    """A JSON object in the order of the signature; `*args` and `**kwargs` are keys, stars included."""
    values: dict[str, Any]
    """The arguments decoded from `encoded`."""
    taken: bool = False

    def take_values(self) -> dict[str, Any] | None:
        """The decoded arguments, once: a run may change them, so later calls return None and must decode again."""
        if self.taken:
            return None
        self.taken = True
        return self.values

    def __repr__(self) -> str:
        return f"Arguments({', '.join(self.values)})"


class Signature:
    """Encodes and decodes a function's arguments and result.

    `what` names the function in messages ("action charge"); with `method`, its first parameter is left out. Type hints
    are resolved when they are first needed, since they may name types that are defined further down.

    A value must equal its decoded form. Parameters without a hint take plain JSON data.
    """

    annotated = True
    """Whether users wrote the hints."""

    def __init__(
        self, function: Callable[..., Any], what: str, method: bool = False, longest: int = LONGEST_JSON
    ) -> None:
        self.what = what
        self._function = function
        self._longest = longest
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[1 if method else 0 :]
        self._signature = signature.replace(parameters=parameters)
        self._parameters = {_STARS.get(one.kind, "") + one.name: one for one in parameters}
        self._plain = all(one.kind in _PLAIN for one in parameters)
        self._positional = sum(one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in parameters)
        self._hints: dict[str, Any] | None = None
        self._arguments: JsonForm | None = None
        self._result: JsonForm | None = None

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters that a call may set."""
        return list(self._parameters.values())

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments of a call, checked against the parameters and their type hints."""
        form = self._arguments or self._form_of_arguments()
        if self._plain:
            names = self._parameters
            given = dict(zip(names, args, strict=False)) if args else {}
            if kwargs:
                given.update({name: kwargs[name] for name in names if name in kwargs})
            if len(given) != len(args) + len(kwargs) or len(args) > self._positional:
                self._bound(args, kwargs)
        else:
            given = self._bound(args, kwargs)
        try:
            return Arguments(*form.write(given))
        except SerializationError as error:
            refused = error
        self._bound(args, kwargs)
        for name, value in given.items():
            self.stored_argument(name, value)
        raise refused

    def stored_argument(self, name: str, value: Any) -> tuple[str, Any]:
        """One argument as JSON, and decoded from it."""
        return JsonForm(self._hint(name), f"{self.what}: argument {name}", self._longest).write(value)

    def read_arguments(self, encoded: str) -> dict[str, Any]:
        """The decoded arguments, for `call_with`."""
        form = self._arguments or self._form_of_arguments()
        values: dict[str, Any] = form.read(encoded)
        if len(values) != len(stored := _KEYS.decode(encoded)):
            unknown = ", ".join(sorted(stored.keys() - values.keys()))
            raise DeserializationError(f"{self.what}: stored argument {unknown} is no longer one of its parameters")
        return values

    def call_with(self, function: Callable[..., Any], values: dict[str, Any]) -> Any:
        """Call the function with decoded arguments."""
        if self._plain:
            return function(**values)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        # Values of `*args` require that all parameters before them are passed by position.
        by_position = any(values.get(name) for name, one in self._parameters.items() if one.kind is one.VAR_POSITIONAL)
        for name, one in self._parameters.items():
            if name not in values:
                continue
            if one.kind is one.VAR_POSITIONAL:
                args += values[name]
            elif one.kind is one.VAR_KEYWORD:
                kwargs |= values[name]
            elif one.kind is one.POSITIONAL_ONLY or (by_position and one.kind is one.POSITIONAL_OR_KEYWORD):
                args.append(values[name])
            else:
                kwargs[name] = values[name]
        return function(*args, **kwargs)

    def are_equivalent(self, stored: str, now: str) -> bool:
        """Whether stored arguments equal those of the code now, apart from new defaults and the order of set elements.

        Some sets, such as those of enums, are written in the order of the process.
        """
        try:
            again = self._bind_again(stored)
            # 1, 1.0 and True are equal in Python but not in JSON, so the texts are compared.
            return again.encoded == now or (
                Counter(again.encoded) == Counter(now) and again.values == self.read_arguments(now)
            )
        except Exception:  # noqa: BLE001 - decoding and comparing run user code
            return False

    def rewrite(self, stored: str) -> str:
        """Stored arguments as they would be written now; raises what decoding them raises."""
        return self._bind_again(stored).encoded

    def _bind_again(self, stored: str) -> Arguments:
        again: Arguments = self.call_with(lambda *args, **kwargs: self.bind(args, kwargs), self.read_arguments(stored))
        return again

    def stored_result(self, value: Any) -> tuple[str, Any]:
        """The result as JSON, and decoded from it."""
        return (self._result or self._form_of_result()).write(value)

    def write_result(self, value: Any) -> str:
        return self.stored_result(value)[0]

    def read_result(self, encoded: str) -> Any:
        return (self._result or self._form_of_result()).read(encoded)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by their stored names, bound by Python's own rules."""
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.what}: {self._unknown(kwargs) or error}") from None
        return {
            name: list(bound[one.name]) if one.kind is one.VAR_POSITIONAL else bound[one.name]
            for name, one in self._parameters.items()
            if one.name in bound
        }

    def _unknown(self, kwargs: dict[str, Any]) -> str | None:
        """A message about a misspelt name, which Python would report last although it often causes the rest."""
        parameters = self._signature.parameters
        name = next((name for name in kwargs if name not in parameters), None)
        if name is None or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            return None
        known = [one.name for one in parameters.values() if one.kind in _PLAIN]
        hint = did_you_mean(name, known, f"it takes: {', '.join(known) or 'none'}")
        return f"no argument is named {name!r}; {hint}"

    def _form_of_arguments(self) -> JsonForm:
        fields = {}
        for name, parameter in self._parameters.items():
            needed = parameter.default is parameter.empty and parameter.kind not in _STARS
            fields[name] = self._hint(name) if needed else NotRequired[self._hint(name)]
        # Shown in messages; without defaults, which may be secrets.
        hints = [f"{name}: {shown_hint(self._hint(name.lstrip('*')))}" for name in fields]
        form = cast("Any", TypedDict)(f"({', '.join(hints)})", fields)
        try:
            self._arguments = JsonForm(form, f"{self.what}: its arguments", self._longest)
        except TypeError:
            for name in self._parameters:
                JsonForm(self._hint(name), f"{self.what}: argument {name}")
            raise
        return self._arguments

    def _form_of_result(self) -> JsonForm:
        where = f"{self.what}: its result"
        self._result = JsonForm(self._hint("return"), where, self._longest, self.annotated)
        return self._result

    def _hint(self, name: str) -> Any:
        if self._hints is None:
            try:
                self._hints = get_type_hints(self._function, include_extras=True)
            except Exception as error:
                raise TypeHintError(f"{self.what}: its type hints cannot be read: {_why_unresolved(error)}") from error
        hint = self._hints.get(name.lstrip("*"), Any)
        if hint is object or hint in (Never, NoReturn):
            return Any
        if not name.startswith("*"):
            return hint
        if not name.startswith("**"):
            return list[hint]  # type: ignore[valid-type]  # the hint is only known at run time
        if get_origin(hint) is Unpack:
            return get_args(hint)[0]
        return dict[str, hint]  # type: ignore[valid-type]  # as above


def _why_unresolved(error: Exception) -> str:
    if isinstance(error, NameError):
        return f"{error}; define or import it at the top of the module, not inside a function or under TYPE_CHECKING"
    return str(error)
