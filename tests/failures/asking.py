"""Make errors happen, and ask what is known about them."""

from collections.abc import Callable
from typing import Any

import pytest

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.lookup import known_verdict

ServeBytes = Callable[[bytes], str]


def verdict_of(error: BaseException) -> Verdict:
    verdict = known_verdict(error)
    assert verdict is not None, f"{type(error)} is not known"
    assert len(verdict.reason) > 10
    return verdict


def error_of(fails: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is what the tests look at
        fails()
    return caught.value


def look_alike(qualified: str, bases: Any = (Exception,), **attributes: Any) -> Exception:
    """An exception with the class name of a library that is not installed here."""
    module, _, name = qualified.rpartition(".")
    kind = type(name, bases, {"__module__": module, **attributes})
    error = kind("failed")
    assert isinstance(error, Exception)
    return error
