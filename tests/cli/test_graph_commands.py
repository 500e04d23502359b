"""Graphs on the command line: run, start and worker take the files they are written in."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.http_handlers import handlers

from redrive.cli import main
from redrive.cli.commands.flows.steps import _rows
from redrive.client.step_views import ItemView, StepView

GRAPH = """
graph: cli_order
goals: [ship]
steps:
  reserve:
    endpoint: URL/ok?outputs={"reservation":"r1"}
    inputs: {order: string}
    outputs: {reservation: string}
  ship:
    endpoint: URL/503?times=1&outputs={"parcel":"p1"}
    inputs: {order: string, reservation: string}
    outputs: {parcel: string}
    retry: {max_attempts: 2, backoff_base_ms: 10}
environments:
  once: {steps: {ship: {retry: {max_attempts: 1}}}}
"""


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def redrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDRIVE_STORE", raising=False)

    def run(*words: str) -> Ran:
        code = main(list(words))
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


def test_a_graph_is_run_from_its_file(tmp_path: Path, redrive: Callable[..., Ran]) -> None:
    with handlers() as server:
        (tmp_path / "order.yaml").write_text(GRAPH.replace("URL", server.url))
        given = ("--input", '{"order": "o1"}', "--allow", "127.0.0.0/8")
        done = redrive("run", "order.yaml", *given)
        assert (done.returncode, json.loads(done.stdout)) == (0, {"parcel": "p1"})
        once = redrive("run", "order.yaml", *given, "--env", "once")
        assert once.returncode == 1
        assert "step ship failed" in once.stderr


def test_what_is_wrong_with_a_graph_or_its_input_is_told_in_a_line(tmp_path: Path, redrive: Callable[..., Ran]) -> None:
    (tmp_path / "order.yaml").write_text(GRAPH.replace("URL", "http://127.0.0.1:9"))
    wrong = redrive("start", "order.yaml", "--input", '{"ordr": "o1"}')
    assert wrong.returncode == 2
    assert "step reserve needs 'order'" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    (tmp_path / "bad.yaml").write_text("graph: bad\nsteps:\n  a: {endpoint: 'ftp://x', outputs: [v], dependson: [b]}\n")
    bad = redrive("worker", "bad.yaml")
    assert bad.returncode == 2
    assert "bad.yaml:3" in bad.stderr
    assert "depends_on" in bad.stderr


FAILING = """
graph: cli_parcel
steps:
  pay: {endpoint: "URL/failed", outputs: {payment: string}}
  ship: {endpoint: 'URL/ok?outputs={"parcel":"p1"}', inputs: {payment: string}, outputs: {parcel: string}}
"""


@pytest.mark.promise("T4", "T10")
def test_steps_are_listed_with_what_they_may_do_and_settled_by_hand(
    tmp_path: Path, redrive: Callable[..., Ran]
) -> None:
    with handlers() as server:
        (tmp_path / "parcel.yaml").write_text(FAILING.replace("URL", server.url))
        words = ("--allow", "127.0.0.0/8", "--key", "one")
        failed = redrive("run", "parcel.yaml", *words)
        assert failed.returncode == 1
        [flow] = json.loads(redrive("flows", "--json").stdout)["flows"]
        listed = redrive("flows", "steps", flow["id"]).stdout
        header, pay = (re.split(r"\s{2,}", line.strip()) for line in listed.splitlines()[1:4:2])
        assert header == ["step", "state", "item", "attempts", "eligible", "ready", "next attempt", "why"]
        assert pay[:6] == ["pay", "failed", "0", "1", "no", "no"]
        refused = redrive("flows", "complete", flow["id"], "pay", "--outputs", "7", "--why", "paid")
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
        done = ("--outputs", '{"payment": "cash"}', "--why", "paid at the desk", "--by", "ann")
        assert redrive("flows", "complete", flow["id"], "pay", *done).returncode == 0
        again = redrive("run", "parcel.yaml", *words)
        assert json.loads(again.stdout) == {"parcel": "p1", "payment": "cash"}
        unknown = redrive("flows", "reset", flow["id"], "nope", "--why", "x")
        assert (unknown.returncode, len(unknown.stderr.splitlines())) == (2, 1)


def test_a_compensated_step_is_listed_as_compensated_and_without_the_error_of_an_earlier_attempt() -> None:
    done = ItemView(
        item=1,
        index=0,
        state="completed",
        attempts=2,
        max_attempts=3,
        next_retry_at=None,
        retry_eligible=False,
        ready=False,
        reason="it is done",
        error="HTTP 503",
    )
    rows = list(_rows([StepView(name="reserve", state="compensated", items=(done,))], now=0.0))
    assert rows == [("reserve", "compensated", "0", "2 of 3", "no", "no", "", "it is done")]
