"""`@signal`: the methods of a workflow that take what is sent to its flows."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, cast, overload

from redrive.flows.values.json_form import is_storable
from redrive.flows.values.signature import Signature

F = TypeVar("F", bound=Callable[..., Any])

Kind = Literal["signal"]
LONGEST_NAME = 200
_MARK = "__redrive_message__"


class Handler:
    """A marked method: its kind, the name by which it is called, and its signature."""

    def __init__(self, kind: Kind, name: str, function: Callable[..., Any]) -> None:
        self.kind = kind
        self.name = name
        self.method = function.__name__
        self.signature = Signature(function, f"{kind} {name}", method=True)


class Handlers(NamedTuple):
    """The handlers of a workflow by name."""

    signals: Mapping[str, Handler]


NO_HANDLERS = Handlers(MappingProxyType({}))


@overload
def signal(function: F, /) -> F: ...
@overload
def signal(function: None = None, /, *, name: str | None = None) -> Callable[[F], F]: ...
def signal(function: Any = None, /, *, name: str | None = None) -> Any:
    """Make a method of a workflow the handler of a signal: `await handle.signal("approved", by="ann")` calls it.

    The method changes what the workflow knows, and returns nothing: `run` waits for that with `workflow.wait_for`. Its
    parameters are decoded by their type hints.

    name: the name of the signal; by default, that of the method.
    """

    def mark(function: Any) -> Any:
        if inspect.iscoroutinefunction(function) or not inspect.isfunction(function):
            raise TypeError(
                f"@signal needs a plain method (def), not {function!r}; a method that has to wait starts a task: "
                "asyncio.create_task(...)"
            )
        setattr(
            function,
            _MARK,
            Handler("signal", check_name("signal", function.__name__ if name is None else name), function),
        )
        return function

    return mark if function is None else mark(function)


def handler_of(method: object) -> Handler | None:
    """The handler that a method is marked as; None for any other object."""
    return cast("Handler | None", getattr(method, _MARK, None))


def handlers_of(cls: type) -> Handlers:
    """All handlers of a workflow, those of its base classes included."""
    found: dict[str, Handler] = {}
    for attribute in dir(cls):
        method = inspect.getattr_static(cls, attribute)
        handler = handler_of(method)
        if handler is None:
            base = next((one for one in cls.__mro__ if handler_of(vars(one).get(attribute)) is not None), None)
            if base is not None:
                raise TypeError(
                    f"{cls.__name__}.{attribute} overrides a handler of {base.__name__}: mark it as one, too"
                )
            continue
        if handler.name in found:
            other = found[handler.name].method
            raise TypeError(f"{cls.__name__}: {other} and {attribute} both handle the {handler.kind} {handler.name!r}")
        found[handler.name] = handler
    return Handlers(found) if found else NO_HANDLERS


def check_name(kind: str, name: object) -> str:
    """TypeError or ValueError unless something may be sent under that name."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} must be a string, not {type(name).__name__}")
    if not name or len(name) > LONGEST_NAME or not is_storable(name):
        raise ValueError(f"the name of a {kind} must have 1 to {LONGEST_NAME} characters that can be stored")
    return name
