"""`make demo` runs to its end, without a terminal too, and shows what it is about."""

import gc
import importlib
import warnings
from pathlib import Path

import pytest

from redrive.testing import no_waits

ROOT = Path(__file__).parents[1]


def test_the_demo_runs_and_shows_every_scene(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    terminal = importlib.import_module("examples.terminal")
    demo = importlib.import_module("examples.demo")
    monkeypatch.setattr(demo, "COOLDOWN", 0.05)
    with no_waits() as clock, warnings.catch_warnings():
        # urllib leaves the socket of an error that nobody closes to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        demo.main()
        gc.collect()
    shown = capsys.readouterr().out
    assert not terminal.console.is_terminal
    for line in (
        "succeeded at attempt 3",
        "next attempt in 1.00 s as Retry-After asks",
        "giving up (permanent)",
        "requests that reached the server: 1",
        "giving up (unknown)",
        "the answer: {'busy': False, 'left': 7}",
        "circuit of payments: closed -> open",
        "refused without a call",
        "circuit of payments: half_open -> closed",
        "calls to the server: 4",
        "calls to the server: 3, not 27",
        "page: gave up after 3 attempts",
        "next: check the other side",
    ):
        assert line in shown, shown
    # What someone at the terminal would have waited for.
    assert sum(clock.waits) < 14
