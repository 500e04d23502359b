"""A client library under test: what it raises when a server misbehaves, and what the classifier makes of it."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.failures.failure import Failure

from .failures import COLUMNS, PATIENCE, STATUSES, TIMEOUT, WAITS, Played, misbehaving

NOW = 1_800_000_000.0


def imported(module: str) -> Any:
    """Import a library when a test needs it: to import all of them takes many seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(module)


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """One library, with a call that talks to a server at a URL. The library's own retries must be switched off."""

    name: str
    call: Callable[[str, float], object]
    """Takes the address of the server, and the seconds to wait for it."""
    raises: tuple[str, ...]
    """The packages whose errors may come out; `builtins` where the library lets them through."""
    without: tuple[str, ...] = ()
    """Columns that do not apply to it."""
    unsure: tuple[str, ...] = ()
    """Failures before the request was sent that look just like one after it."""

    server: Callable[[str | Played], AbstractContextManager[str]] = misbehaving
    """Starts a server that misbehaves in one of the ways of `COLUMNS`, and gives its address to the call."""
    calls: Mapping[str, Callable[[str, float], object]] = {}
    """Other calls for single failures: those that a plain call does not notice."""

    def provoke(self, how: str, url: str) -> object:
        """Call a server that fails so, and wait for it only as long as the failure takes."""
        return self.calls.get(how, self.call)(url, TIMEOUT if how in WAITS else PATIENCE)

    def columns(self) -> list[str]:
        return [column for column in COLUMNS if column not in self.without]


def error_of(library: Library, how: str) -> Exception:
    """The error that the library raises against a server that misbehaves so."""
    with library.server(how) as url:
        return raised_by(lambda url: library.provoke(how, url), url)


def raised_by(call: Callable[[str], object], url: str) -> Exception:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(url)
        except Exception as error:
            return error
    raise AssertionError("the call did not fail")


def classified(error: BaseException) -> Failure:
    return DEFAULT_CLASSIFIER.failure_of(error, NOW)


def failure_after(reply: Played, call: Callable[[str], object]) -> Failure:
    """What the classifier makes of the error that the call raises when the server always replies so."""
    with misbehaving(reply) as url:
        return classified(raised_by(call, url))


def failure_of(library: Library, how: str) -> Failure:
    """What the classifier makes of it. Made to happen once; the tests and the table ask several times."""
    if (library.name, how) not in _FAILURES:
        _FAILURES[library.name, how] = _failure(library, how)
    return _FAILURES[library.name, how]


_FAILURES: dict[tuple[str, str], Failure] = {}


def _failure(library: Library, how: str) -> Failure:
    error = error_of(library, how)
    package = type(error).__module__.split(".")[0]
    assert package in library.raises, f"{type(error)} is not of {library.raises}"
    failure = classified(error)
    if how in STATUSES:
        # Else the table would show another failure under this name.
        assert failure.status == int(how), f"{library.name} failed otherwise than with {how}: {error!r}"
    return failure
