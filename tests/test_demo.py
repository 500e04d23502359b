"""`redrive demo` and the examples run to their end, without a terminal too, and show what they are about."""

import gc
import importlib
import re
import warnings
from pathlib import Path

import pytest
from tests.readme_blocks import DEMO, blocks, check_output
from tests.wheel_install import ROOT, WheelInstall

from redrive.testing import no_waits


def in_order(shown: str, *lines: str) -> None:
    """Each of these is shown, one after the other."""
    at = 0
    for line in lines:
        found = shown.find(line, at)
        assert found >= 0, f"{line!r} is missing after position {at} of\n{shown}"
        at = found + len(line)


@pytest.mark.promise("A12", "A14", "R9")
def test_the_demo_kills_its_worker_and_the_order_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the wheel, with none of its extras, in an empty folder."""
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setenv("TMPDIR", str(kept))
    [block] = [block for block in blocks() if DEMO in block.body]
    install = WheelInstall(tmp_path / "install")
    folder = tmp_path / "empty"
    folder.mkdir()
    assert install.run(["pip", "install", "redrive"], folder).returncode == 0
    finished = install.run(["bash", "-c", block.body], folder)
    shown = finished.stdout
    assert finished.returncode == 0, shown
    assert [*folder.iterdir()] == []
    check_output(block.output or "", shown)
    in_order(
        shown,
        "reserve: attempt 1 succeeded",
        "charge: attempt 1 of 6 failed: HTTP Error 503",
        "attempt 2 in 1.00 s, as Retry-After asks",
        "charge: attempt 2 of 6 failed: [Errno",
        "charge: attempt 3 begins",
        "SIGKILL to process",
        "charge: attempt 3 of 6 was lost",
        "charge: attempt 4 of 6 failed: the attempt took longer than its 2 s",
        "charge: attempt 5 succeeded",
        "add_gift: attempt 1 failed: HTTP Error 404",
        "no retry (permanent): the workflow's own code handles it",
        "the flow is complete",
        "/reserve  1 call, 1 idempotency key: recorded before the kill, and not run again",
        "/charge   5 calls, 1 idempotency key",
        "money taken: 42.00, once",
    )
    explained = shown.partition("$ redrive explain ")[2]
    in_order(
        explained,
        "Order: completed in",
        "1. reserve(",
        "2. charge(",
        "attempt 1 of 6 failed after",
        "retry_on matches OSError; Retry-After asked for 1s",
        "attempt 3 of 6 was lost with its worker",
        "attempt 4 (counted as 3 of 6) timed out after",
        "attempt 5 completed after",
        "3. pack(",
        "4. notify(",
        "gave up (permanent)",
        "6. ship(",
        "completed: {",
    )
    # The store stays, for the dashboard.
    [store] = kept.glob("redrive-demo-*/orders.db")
    in_order(explained, f"$ redrive dashboard --store sqlite:///{store}", "$ redrive demo --dashboard")
    for path in ("/pack", "/gift", "/ship"):
        assert re.search(rf"{path} +1 call, 1 idempotency key$", shown, re.MULTILINE), shown


def test_the_guarded_calls_show_every_scene(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    example = importlib.import_module("examples.guarded_calls")
    monkeypatch.setattr(example, "COOLDOWN", 0.05)
    with no_waits() as clock, warnings.catch_warnings():
        # urllib leaves the socket of an error that nobody closes to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        example.main()
        gc.collect()
    in_order(
        capsys.readouterr().out,
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
    )
    # What someone at the terminal would have waited for.
    assert sum(clock.waits) < 14
