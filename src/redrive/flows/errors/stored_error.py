"""Exceptions as data, and back: live and replayed code catch the same exception, rebuilt from what is stored."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from redrive.failures.redaction import DEFAULT_LIMIT, redact
from redrive.failures.secret_names import names_a_secret
from redrive.flows.errors.error_classes import (
    KEPT_TEXT,
    ClassNames,
    class_names,
    find_class,
    is_stand_in,
    stand_in,
    with_kept_text,
)
from redrive.flows.errors.error_details import DetailWriter, kept_text, read_detail, shown_text

T = TypeVar("T")

_DEEPEST = 5
_MOST_ERRORS = 50
_MOST_NOTES = 10
_MOST_ATTRIBUTES = 50
# Attributes of built-in exceptions that are not set from their arguments.
_BY_KEYWORD = frozenset({"name", "name_from", "path", "obj"})


class StoredError(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One exception, of bounded size and without secrets."""

    type: str
    """Its qualified class name; as in a Failure, without `builtins.`."""
    message: str
    """Its text, on one line."""
    lineage: tuple[str, ...] = ()
    """Qualified names of its class and the bases, nearest first."""
    module: str = "builtins"
    """The part of the class name that is the module."""
    args: list[Any] | None = None
    """Its arguments as JSON; None when the message is the only one, or stands for arguments that JSON cannot hold."""
    state: dict[str, Any] = {}
    """Those of its attributes that JSON can hold."""
    notes: tuple[str, ...] = ()
    cause: "StoredError | None" = None
    """Its `__cause__`, or else its `__context__`."""
    members: tuple["StoredError", ...] = ()
    """The exceptions of an exception group."""


_LEFT_OUT = StoredError(
    type="Exception",
    message="further errors are left out",
    lineage=("builtins.Exception", "builtins.BaseException"),
)


_NAMELESS = ClassNames("builtins", ("builtins.Exception", "builtins.BaseException"), Exception, (), ())
"""For classes whose names cannot be read."""


class _Budget:
    """How many more errors may be stored along with the first."""

    __slots__ = ("errors",)

    def __init__(self) -> None:
        self.errors = _MOST_ERRORS


def store_error(error: BaseException) -> StoredError:
    """The exception as data. Errors that its own code raises on the way are ignored."""
    try:
        plain = _store_plain(error)
    except Exception:  # noqa: BLE001 - an exception that cannot be read still happened
        plain = None
    return plain or _store(error, _Budget(), 0)


def _store_plain(error: BaseException) -> StoredError | None:
    """Store an error that is only a class and a text, as most are; None when it is more than that."""
    args = error.args
    if len(args) != 1 or type(args[0]) is not str or vars(error):
        return None
    if error.__cause__ is not None or error.__context__ is not None:
        return None
    names = class_names(type(error))
    if names.slots:
        return None
    for name in names.native_fields:
        if getattr(error, name, None) is not None:
            return None
    text = args[0]
    if _text(error) != text or redact(text) != text:
        return None
    return StoredError(names.lineage[0].removeprefix("builtins."), text, names.lineage, names.module)


def _store(error: BaseException, budget: _Budget, depth: int) -> StoredError:
    budget.errors -= 1
    names = _tried(_NAMELESS, class_names, type(error))
    raw = _tried(f"<{names.lineage[0].rpartition('.')[2]} whose text cannot be read>", _text, error)
    shown = redact(raw)
    writer = DetailWriter(raw, shown)
    args = _tried(None, _args, error, shown, writer)
    state: dict[str, Any] = _tried({}, _state, error, shown if args is None else None, names, writer)
    message = writer.message(DEFAULT_LIMIT)
    return StoredError(
        type=names.lineage[0].removeprefix("builtins."),
        message=message,
        lineage=names.lineage,
        module=names.module,
        args=None if args == [message] else args,
        state=state,
        notes=_tried((), _notes, error),
        cause=_tried(None, _cause, error, budget, depth),
        members=_tried((), _members, error, budget, depth) if issubclass(type(error), BaseExceptionGroup) else (),
    )


def _tried(otherwise: T, part: Callable[..., T], *given: Any) -> T:
    try:
        return part(*given)
    except Exception:  # noqa: BLE001 - an exception that cannot be read still happened
        return otherwise


def _text(error: BaseException) -> str:
    return str.__str__(str(error))  # `__str__` may return a subclass of str


def _args(error: BaseException, shown: str, writer: DetailWriter) -> list[Any] | None:
    if isinstance(error, BaseExceptionGroup):
        return [kept_text(error.message)]
    args = error.args
    if len(args) == 1 and type(args[0]) is str and args[0] == shown:
        return None
    plain: list[Any] = writer.write(list(args))
    return plain


def _state(error: BaseException, only_arg: str | None, names: ClassNames, writer: DetailWriter) -> dict[str, Any]:
    values = dict(vars(error))
    values.update((name, getattr(error, name)) for name in names.slots if hasattr(error, name))
    args = error.args if only_arg is None else (only_arg,)
    for name in names.native_fields:
        value = getattr(error, name, None)
        if value is not None and (name in _BY_KEYWORD or value not in args):
            values[name] = value
    state: dict[str, Any] = {}
    for name, value in values.items():
        if not name.startswith("__") and not names_a_secret(name) and len(state) < _MOST_ATTRIBUTES:
            with suppress(Exception):  # one attribute that cannot be stored does not lose the others
                state[name] = writer.write(value)
    return state


def _notes(error: BaseException) -> tuple[str, ...]:
    notes = getattr(error, "__notes__", ())
    return tuple(kept_text(note) for note in notes[:_MOST_NOTES] if isinstance(note, str))


def _cause(error: BaseException, budget: _Budget, depth: int) -> StoredError | None:
    cause = error.__cause__
    if cause is None and not error.__suppress_context__:
        cause = error.__context__
    if cause is None or depth >= _DEEPEST or budget.errors <= 0:
        return None
    return _store(cause, budget, depth + 1)


def _members(error: BaseExceptionGroup[BaseException], budget: _Budget, depth: int) -> tuple[StoredError, ...]:
    stored: list[StoredError] = []
    for member in error.exceptions:
        if depth >= _DEEPEST or budget.errors <= 0:
            return (*stored, _LEFT_OUT)
        stored.append(_store(member, budget, depth + 1))
    return tuple(stored)


def rebuild_error(stored: StoredError) -> BaseException:
    """The exception again, created without calling the `__init__` of its class.

    Its class is the original one where that can be found, and otherwise a stand-in of the same name, which `except`
    matches by its bases. What JSON cannot hold is missing, but the exception prints the same text.
    """
    args: tuple[Any, ...] = (
        (stored.message,) if stored.args is None else tuple(_tried([stored.message], read_detail, stored.args))
    )
    if stored.members:
        args = (*args[:1], [rebuild_error(member) for member in stored.members])
    for kind in _candidates(stored):
        error = _tried(None, _instance, kind, args, stored)
        if error is not None:
            break
    else:
        error = Exception(stored.message)
    if stored.notes:
        _set(error, "__notes__", list(stored.notes))
    if stored.cause is not None:
        _set(error, "__cause__", rebuild_error(stored.cause))
    return error


def _candidates(stored: StoredError) -> Iterator[type[BaseException]]:
    """Classes for the exception, the best first."""
    name = stored.type if "." in stored.type else f"builtins.{stored.type}"
    lineage = stored.lineage or (name,)
    found = find_class(lineage[0])
    if found is not None:
        yield found
        with suppress(Exception):  # the class may forbid subclasses
            yield with_kept_text(found)
    with suppress(Exception):
        yield stand_in(lineage, stored.module)
    with suppress(Exception):
        yield stand_in(lineage[:1], stored.module)


def _instance(kind: type[BaseException], args: tuple[Any, ...], stored: StoredError) -> BaseException | None:
    """An instance that prints the original text; None when that is not possible with this class."""
    names = class_names(kind)
    native: Any = names.native
    try:
        error: BaseException = native.__new__(kind, *args)
    except Exception:  # noqa: BLE001 - a class from an extension may need its own __new__
        error = kind.__new__(kind, *args)
    with suppress(Exception):  # built-in classes check their arguments
        native.__init__(error, *args)
    if error.args != args:
        _set(error, "args", args)
    for name, plain in stored.state.items():
        value = read_detail(plain)
        if name in names.slots or name in names.native_fields:
            _set(error, name, value)
        elif not name.startswith("__"):
            vars(error)[name] = value
    if _prints(error, stored.message):
        return error
    if is_stand_in(kind):
        vars(error)[KEPT_TEXT] = stored.message
        return error
    return None


def _prints(error: BaseException, message: str) -> bool:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - its own code misses what was not stored
        return False
    return text == message or shown_text(text, DEFAULT_LIMIT) == message


def _set(error: BaseException, name: str, value: Any) -> None:
    # Not setattr, which frozen dataclasses and the like forbid.
    with suppress(Exception):
        BaseException.__setattr__(error, name, value)
