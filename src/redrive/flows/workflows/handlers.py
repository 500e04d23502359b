"""`@signal`: the methods of a workflow that take what is sent to its flows."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, cast, overload

from redrive.flows.values.json_form import is_storable
from redrive.flows.values.signature import Signature

F = TypeVar("F", bound=Callable[..., Any])

Kind = Literal["signal", "query", "update", "validator"]
LONGEST_NAME = 200
_MARK = "__redrive_message__"


class Handler:
    """A marked method: its kind, the name by which it is called, and its signature."""

    def __init__(self, kind: Kind, name: str, function: Callable[..., Any]) -> None:
        self.kind = kind
        self.name = name
        self.method = function.__name__
        self.signature = Signature(function, f"{kind} {name}", method=True)
        self.validator: Handler | None = None
        """The method that checks the arguments of an update."""


class Handlers(NamedTuple):
    """The handlers of a workflow by name."""

    signals: Mapping[str, Handler]
    queries: Mapping[str, Handler]
    updates: Mapping[str, Handler]


_NONE: Mapping[str, Handler] = MappingProxyType({})
NO_HANDLERS = Handlers(_NONE, _NONE, _NONE)


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

    hint = "a method that has to wait starts a task: asyncio.create_task(...)"
    return _marking("signal", function, name, hint)


@overload
def query(function: F, /) -> F: ...
@overload
def query(function: None = None, /, *, name: str | None = None) -> Callable[[F], F]: ...
def query(function: Any = None, /, *, name: str | None = None) -> Any:
    """Make a method of a workflow answer queries: `await handle.query("status")` returns what it returns.

    The method reads what the workflow knows, and changes nothing. It is asked of any flow that has begun, also of one
    that has ended.

    name: the name of the query; by default, that of the method.
    """
    return _marking("query", function, name, "it only reads, so it has nothing to wait for")


class UpdateMethod:
    """A method marked with `@update`. `@set_address.validator` marks the one that checks its arguments."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.handler = Handler("update", name, function)
        setattr(self, _MARK, self.handler)
        self._function = function

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else self._function.__get__(instance, owner)

    def validator(self, function: F) -> F:
        """The method gets the arguments before the update is accepted, and refuses it by raising an exception."""
        method: Any = function
        if inspect.iscoroutinefunction(method) or not inspect.isfunction(method):
            raise TypeError(
                f"@{self.handler.method}.validator needs a plain method (def), not {function!r}; it only reads"
            )
        self.handler.validator = Handler("validator", self.handler.name, function)
        return function


@overload
def update(function: Callable[..., Any], /) -> UpdateMethod: ...
@overload
def update(function: None = None, /, *, name: str | None = None) -> Callable[[Callable[..., Any]], UpdateMethod]: ...
def update(function: Any = None, /, *, name: str | None = None) -> Any:
    """Make a method of a workflow take updates: `await handle.update("set_address", street="...")` returns its result.

    The method may be async and run actions. What it raises is raised for the sender, and the flow goes on.

    name: the name of the update; by default, that of the method.
    """

    def mark(function: Any) -> UpdateMethod:
        if not inspect.isfunction(function):
            raise TypeError(f"@update needs a method, not {function!r}")
        return UpdateMethod(check_name("update", function.__name__ if name is None else name), function)

    return mark if function is None else mark(function)


def _marking(kind: Kind, function: Any, name: str | None, hint: str) -> Any:
    def mark(function: Any) -> Any:
        if inspect.iscoroutinefunction(function) or not inspect.isfunction(function):
            raise TypeError(f"@{kind} needs a plain method (def), not {function!r}; {hint}")
        own_name = check_name(kind, function.__name__ if name is None else name)
        setattr(function, _MARK, Handler(kind, own_name, function))
        return function

    return mark if function is None else mark(function)


def handler_of(method: object) -> Handler | None:
    """The handler that a method is marked as; None for any other object."""
    return cast("Handler | None", getattr(method, _MARK, None))


def handlers_of(cls: type) -> Handlers:
    """All handlers of a workflow, those of its base classes included."""
    found: dict[str, dict[str, Handler]] = {"signal": {}, "query": {}, "update": {}}
    for attribute in dir(cls):
        handler = handler_of(inspect.getattr_static(cls, attribute))
        if handler is None:
            base = next((one for one in cls.__mro__ if handler_of(vars(one).get(attribute)) is not None), None)
            if base is not None:
                raise TypeError(
                    f"{cls.__name__}.{attribute} overrides a handler of {base.__name__}: mark it as one, too"
                )
            continue
        if (other := found[handler.kind].get(handler.name)) is not None:
            raise TypeError(
                f"{cls.__name__}: {other.method} and {attribute} both handle the {handler.kind} {handler.name!r}"
            )
        found[handler.kind][handler.name] = handler
    return Handlers(found["signal"], found["query"], found["update"]) if any(found.values()) else NO_HANDLERS


def check_name(kind: str, name: object) -> str:
    """TypeError or ValueError unless something may be sent under that name."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} must be a string, not {type(name).__name__}")
    if not name or len(name) > LONGEST_NAME or not is_storable(name):
        raise ValueError(f"the name of a {kind} must have 1 to {LONGEST_NAME} characters that can be stored")
    return name
