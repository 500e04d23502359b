"""Every "did you mean" points to what was meant, or says nothing."""

import asyncio
from typing import Any

import pytest

import redrive
from redrive import action
from redrive.errors import NotationError
from redrive.near_names import near_name
from redrive.notation.read import read_policy

SETTINGS = ("attempts", "retry_on", "never_on", "deadline", "attempt_timeout", "backoff", "jitter", "max_wait", "rules")
MORE = (*SETTINGS, "timeout_growth", "timeout_retries", "max_retry_after", "floor", "idempotent")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("jiter", "jitter"),
        ("Deadline", "deadline"),
        ("max-wait", "max_wait"),
        ("flor", "floor"),
        ("retries", "attempts"),
        ("max_retries", "attempts"),
        ("tries", "attempts"),
        ("timeout", "attempt_timeout"),
        ("delay", "backoff"),
        ("max_delay", "max_wait"),
        ("exceptions", "retry_on"),
        ("attempts", ""),
        ("colour", ""),
        ("x", ""),
        ("", ""),
        ("a" * 1000, ""),
    ],
)
def test_a_setting_that_was_meant(given: str, meant: str) -> None:
    assert near_name(given, MORE) == meant


@pytest.mark.parametrize(
    ("given", "known", "meant"),
    [
        ("fro", ("for", "fn"), "for"),
        ("iff", ("if", "is"), "if"),
        ("log", ("flow", "lag"), ""),
        ("note", ("none",), "none"),
        ("order", ("border", "orders"), "orders"),
        ("status", ("status",), ""),
    ],
)
def test_a_short_name_needs_more_likeness(given: str, known: tuple[str, ...], meant: str) -> None:
    assert near_name(given, known) == meant


def test_the_settings_of_a_guard_and_of_policies() -> None:
    with pytest.raises(TypeError, match=r"did you mean 'attempts'\? It counts the first attempt too"):
        redrive.retry(max_retries=3)  # type: ignore[call-overload]
    with pytest.raises(NotationError, match="did you mean 'attempt_timeout'"):
        read_policy("{attempts: 3, timeout: 3s}")
    with pytest.raises(NotationError, match="did you mean 'retry'"):
        read_policy("[max_retries: 3]")


@action(name="near_names.work")
async def work() -> None:
    """Do nothing."""


def test_misspelled_settings_are_named_with_what_was_meant() -> None:
    wrong: dict[str, Any] = {"quue": "mail"}
    with pytest.raises(TypeError, match=r"^app.start: 'quue' is not a setting; did you mean 'queue'\?$"):
        asyncio.run(redrive.open("memory://").start(work(), **wrong))
    with (
        pytest.raises(TypeError, match=r"^app.start: 'quue' is not a setting; did you mean 'queue'\?$"),
        redrive.open_sync("memory://") as app,
    ):
        app.start(work(), **wrong)
    wrong = {"dependancy": "bank"}
    with pytest.raises(TypeError, match=r"^@action: 'dependancy' is not a setting; did you mean 'dependency'\?$"):
        action(**wrong)
    wrong = {"circut": None}
    with pytest.raises(TypeError, match=r"^define_dependency: 'circut' is not a setting; did you mean 'circuit'\?$"):
        redrive.define_dependency("bank", **wrong)
    wrong = {"zzz": None}
    with pytest.raises(TypeError, match=r"'zzz' is not a setting; use circuit, budget, limits$"):
        redrive.define_dependency("bank", **wrong)
