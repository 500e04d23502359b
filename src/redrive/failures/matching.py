"""Matches failures by class, class name (qualified, bare or of a base class), status, category or predicate."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, cast

import msgspec

from redrive.errors import RelayedError
from redrive.failures.failure import Failure

CATEGORIES = ("transient", "permanent", "unknown", "any")


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A set of alternatives; a failure matches when any of them does."""

    categories: tuple[str, ...] = ()
    """Any of "transient", "permanent", "unknown", "any"."""
    types: tuple[type[BaseException], ...] = ()
    """Exception classes; their subclasses match too."""
    names: tuple[str, ...] = ()
    """Class names, bare ("ConnectError") or qualified ("httpx.ConnectError"); names of base classes match too.

    A name may be qualified by the module that defines the class, or by a parent package that exports it.
    """
    statuses: tuple[tuple[int, int], ...] = ()
    """Ranges of HTTP statuses, inclusive."""
    predicates: tuple[Callable[[Any], bool], ...] = ()
    """Functions of the exception; they only work in the process that raised it."""

    def __post_init__(self) -> None:
        for field, ok, allowed in (
            ("categories", lambda one: one in CATEGORIES, f"a tuple of {', '.join(CATEGORIES)}"),
            ("types", lambda one: isinstance(one, type) and issubclass(one, Exception), "a tuple of exception classes"),
            ("names", lambda one: isinstance(one, str), "a tuple of class names"),
            ("statuses", _is_range, "a tuple of ranges such as ((500, 599),)"),
            ("predicates", callable, "a tuple of functions"),
        ):
            value = getattr(self, field)
            if not (isinstance(value, tuple) and all(map(ok, value))):
                raise ValueError(f"Match {field}: {value!r} is not allowed; use {allowed}, or as_match(...)")

    def matched_by(self, failure: Failure) -> str | None:
        """Return a description of the alternative that matches; None when none does."""
        error = failure.error
        if self.types and isinstance(error, self.types):
            return next(kind.__name__ for kind in self.types if isinstance(error, kind))
        if self.names or (self.types and (error is None or isinstance(error, RelayedError))):
            known = failure.lineage
            for name in (*self.names, *(qualified_name(kind) for kind in self.types)):
                if name in known:
                    return name
        if self.statuses and failure.status is not None:
            for low, high in self.statuses:
                if low <= failure.status <= high:
                    return f"status {failure.status}"
        for category in self.categories:
            if category == "any":
                return "any failure"
            if category == failure.category:
                return f"{category} failure"
        for predicate in self.predicates:
            if error is not None and predicate(error):
                return f"predicate {getattr(predicate, '__name__', 'given')}"
        return None

    def __bool__(self) -> bool:
        return bool(self.categories or self.types or self.names or self.statuses or self.predicates)

    def __or__(self, other: "Match") -> "Match":
        return Match(
            categories=self.categories + other.categories,
            types=self.types + other.types,
            names=self.names + other.names,
            statuses=self.statuses + other.statuses,
            predicates=self.predicates + other.predicates,
        )


def _is_range(value: Any) -> bool:
    if not (isinstance(value, tuple) and len(value) == 2 and all(type(end) is int for end in value)):
        return False
    return bool(100 <= value[0] <= value[1] <= 599)


Failures = type[BaseException] | str | int | Match | Callable[[Any], bool] | Iterable[Any]
"""Exception classes, names, statuses, predicates, a Match, or several of them."""

NOTHING = Match()
TRANSIENT = Match(categories=("transient",))
UNKNOWN = Match(categories=("unknown",))
ANYTHING = Match(categories=("any",))


def qualified_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def written_name(kind: type) -> str:
    """Return the name of a class as policies write it: bare for builtins, else qualified."""
    return kind.__name__ if kind.__module__ == "builtins" else qualified_name(kind)


def lineage(kind: type) -> tuple[str, ...]:
    """Return the qualified and bare names of a class and its bases, nearest first."""
    return _lineage(kind)


@lru_cache(maxsize=1024)
def _lineage(kind: type) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for base in kind.__mro__[:-1]:
        names[qualified_name(base)] = None
        for package in _packages_offering(base):
            names[f"{package}.{base.__name__}"] = None
        names[base.__name__] = None
    return tuple(names)


def _packages_offering(kind: type) -> Iterator[str]:
    """Yield the parent packages that export the class under its name, such as `aiohttp` for its ClientError."""
    package = kind.__module__.rpartition(".")[0]
    while package:
        # Not getattr, which would run the code of packages that import lazily.
        if getattr(sys.modules.get(package), "__dict__", {}).get(kind.__name__) is kind:
            yield package
        package = package.rpartition(".")[0]


def as_match(what: Any) -> Match:
    """Make a Match of what users write: a class, class name, status, predicate or Match, or several of them."""
    if isinstance(what, Match):
        return what
    if isinstance(what, type):
        if not issubclass(what, BaseException):
            raise TypeError(f"{what.__name__} is not an exception class; name exceptions, statuses or a predicate")
        if not issubclass(what, Exception):
            raise TypeError(f"{what.__name__} is never retried: it ends the program or the task")
        return Match(types=(what,))
    if isinstance(what, str):
        return _match_from_text(what)
    if isinstance(what, bool):
        raise TypeError(f"{what!r} does not name a failure; use ANYTHING to match all, NOTHING to match none")
    if isinstance(what, int):
        return _match_status(what, what)
    if callable(what):
        return Match(predicates=(cast("Callable[[Any], bool]", what),))
    if isinstance(what, Iterable):
        together = NOTHING
        for one in what:
            together = together | as_match(one)
        return together
    raise TypeError(f"cannot tell which failures {what!r} means: use exception classes, names, statuses or a predicate")


def _match_from_text(text: str) -> Match:
    """ "transient", "status:429", "status:5xx", "status:500-504", or a class name."""
    if text in CATEGORIES:
        return Match(categories=(text,))
    if text.startswith("status:"):
        spec = text.removeprefix("status:").strip()
        if len(spec) == 3 and _is_number(spec[0]) and spec[1:].lower() == "xx":
            return _match_status(int(spec[0]) * 100, int(spec[0]) * 100 + 99)
        low, dash, high = spec.partition("-")
        if _is_number(low) and (not dash or _is_number(high)):
            return _match_status(int(low), int(high) if dash else int(low))
        raise ValueError(f'"{text}" is not a status: write status:429, status:5xx or status:500-504')
    if text and all(part.isidentifier() or part == "<locals>" for part in text.split(".")):
        return Match(names=(text,))
    raise ValueError(
        f'"{text}" does not name a failure: write a class name such as ConnectionError, a status such as status:429, '
        f"or one of {', '.join(CATEGORIES)}"
    )


def _is_number(text: str) -> bool:
    # isdigit() alone accepts superscripts, which int() rejects.
    return text.isascii() and text.isdigit()


def _match_status(low: int, high: int) -> Match:
    if not (100 <= low <= high <= 599):
        raise ValueError(f"{low if low == high else f'{low}-{high}'} is not an HTTP status: use 100 to 599")
    return Match(statuses=((low, high),))


def match_as_texts(match: Match) -> list[str]:
    """Return the text form that `as_match` reads back. ValueError for predicates, which have none."""
    if match.predicates:
        raise ValueError("a predicate is Python code and has no text form; match by class name instead")
    texts = list(match.categories)
    texts += [written_name(kind) for kind in match.types]
    texts += match.names
    for low, high in match.statuses:
        if low == high:
            texts.append(f"status:{low}")
        elif low % 100 == 0 and high == low + 99:
            texts.append(f"status:{low // 100}xx")
        else:
            texts.append(f"status:{low}-{high}")
    return texts
