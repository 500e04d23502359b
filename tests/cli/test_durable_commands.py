"""The commands for durable work through their entry point: run, start, flows, explain, dead, doctor."""

import asyncio
import io
import json
import re
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import pytest
import typer
from tests.postgres_server import GUARDED_PASSWORD, GUARDED_USER, shared_server

import redrive
from redrive.cli import main
from redrive.cli.app import build
from redrive.determinism.clock import SystemClock
from redrive.flows.events import FlowParked, write_event, write_turn
from redrive.stores.leases import NewWorker
from redrive.stores.postgres import migrator
from redrive.stores.records import FINISHED

SHOP = str(Path(__file__).with_name("durable_shop.py"))
NO_FLOW = "00000000-0000-7000-8000-000000000000"


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    def refused(self) -> str:
        """The one line that says why."""
        assert (self.code, self.out) == (2, ""), (self.code, self.out, self.err)
        (line,) = self.err.splitlines()
        return line.removeprefix("redrive: ")


class Command(Protocol):
    def __call__(self, *arguments: str) -> Ran: ...


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = f"sqlite:///{tmp_path}/app.db"
    monkeypatch.setenv("REDRIVE_STORE", address)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return address


@pytest.fixture
def run(store: str, capsys: pytest.CaptureFixture[str]) -> Command:
    def run_command(*arguments: str) -> Ran:
        code = main([*arguments])
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run_command


def order(failures: int = 0, **more: Any) -> tuple[str, str, str]:
    return f"{SHOP}:CliOrder", "--input", json.dumps({"user": "u1", "failures": failures, **more})


def started(run: Command, *options: str, failures: int = 0) -> str:
    ran = run("start", *order(failures), *options)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def dead(run: Command, failures: int = 9) -> str:
    """The id of a flow that failed for good."""
    flow_id = started(run, failures=failures)
    work_off()
    return flow_id


def work_off() -> None:
    """Be a worker until nothing is left to do."""

    async def work() -> None:
        async with redrive.open() as app, asyncio.timeout(20):
            while any(flow.status not in (*FINISHED, "paused", "parked") for flow in await app.flows()):  # noqa: ASYNC110 - the flows are in a store
                await asyncio.sleep(0.01)

    asyncio.run(work())


# run


def test_run_prints_the_result_alone_and_its_progress_beside_it(run: Command) -> None:
    ran = run("run", *order(failures=2))
    assert (ran.code, ran.data) == (0, {"user": "u1", "paid": "paid 100"})
    first, second = ran.err.splitlines()
    assert "cli_pay: attempt 1 of 3 failed (transient): ConnectionError: no answer" in first
    assert first.endswith("; attempt 2 of 3 in 10ms")
    assert second.endswith("; attempt 3 of 3 in 20ms")


def test_run_prints_how_the_flow_ended_as_json(run: Command) -> None:
    ran = run("run", *order(), "--json")
    assert (ran.code, ran.data["status"], ran.data["result"]) == (0, "completed", {"user": "u1", "paid": "paid 100"})
    assert run("explain", ran.data["id"], "--json").data["status"] == "completed"
    failed = run("run", *order(failures=3), "--json")
    assert (failed.code, failed.data["status"], failed.data["result"]) == (1, "failed", None)
    assert failed.data["error"]["kind"] == "exhausted"
    assert "failed for good" in failed.err


def test_every_command_that_prints_data_takes_json() -> None:
    """All but those that run until they are stopped, one that prints nothing else, and one that rewrites files."""

    def without(command: Any, path: str) -> list[str]:
        if hasattr(command, "commands"):
            return [one for name, sub in command.commands.items() for one in without(sub, f"{path} {name}".strip())]
        return [] if any("--json" in option.opts for option in command.params) else [path]

    assert without(typer.main.get_command(build()), "") == [
        *("demo", "worker", "serve", "dashboard", "export", "mcp", "script fmt")
    ]


def test_a_run_that_fails_explains_itself_and_exits_1(run: Command, store: str) -> None:
    ran = run("run", *order(failures=3, password="hunter2-and-more"), "--store", f"sqlite:///{store[10:]}x")
    assert (ran.code, ran.out) == (1, "")
    assert "CliOrder: failed for good: cli_pay gave up after 3 attempts (exhausted): ConnectionError" in ran.err
    assert f"--why WHY --store sqlite:///{store[10:]}x" in ran.err
    assert "hunter2" not in ran.err


def test_the_same_key_gives_the_same_flow_and_another_input_is_refused(run: Command) -> None:
    assert run("run", *order(), "--key", "order-17").code == 0
    again = run("run", *order(), "--key", "order-17")
    assert again.data == {"user": "u1", "paid": "paid 100"}
    assert len(run("flows", "--json").data["flows"]) == 1
    assert (
        "key 'order-17' belongs to workflow:CliOrder" in run("run", *order(failures=1), "--key", "order-17").refused()
    )


def test_input_is_read_by_type_hints_whatever_arguments_are_called(run: Command) -> None:
    ran = run("run", f"{SHOP}:CliDelivery", "--input", '{"day": "2030-01-01", "key": "k1", "queue": 3}')
    assert ran.data == "k1 3 Tuesday"
    ran = run("run", f"{SHOP}:CliDelivery", "--input", '{"day": "2030-01-01", "key": "k1"}', "--key", "own")
    assert ran.data == "k1 0 Tuesday"


def test_an_action_is_run_as_a_job_and_memory_is_enough_for_it(run: Command) -> None:
    ran = run("run", f"{SHOP}:pay", "--input", '{"cents": 5, "failures": 1}', "--store", "memory://")
    assert (ran.code, ran.data) == (0, "paid 5")


def test_a_run_that_takes_too_long_keeps_the_flow_and_says_how_to_go_on(run: Command) -> None:
    ran = run("run", f"{SHOP}:CliNaps", "--input", '{"seconds": 1}', "--timeout", "100ms")
    assert (ran.code, ran.out) == (124, "")
    assert f"it continues with: redrive worker {SHOP}; to see where it stands: redrive explain " in ran.err
    (flow,) = run("flows", "--json").data["flows"]
    assert run("flows", "result", flow["id"]).code == 124
    work_off()
    assert run("flows", "result", flow["id"]).data == "rested"


# start, flows, explain


def test_start_prints_the_id_and_settings_are_kept(run: Command) -> None:
    ran = run("start", *order(), "--queue", "mail", "--priority", "5", "--delay", "2h", "--key", "k", "--json")
    (flow,) = run("flows", "--json").data["flows"]
    assert flow["id"] == ran.data["id"]
    assert (flow["queue"], flow["priority"], flow["key"], flow["status"]) == ("mail", 5, "k", "waiting")
    assert "input" not in flow
    assert "waiting for its start at " in run("explain", flow["id"]).out.splitlines()[0]


def test_a_name_that_an_imported_module_registers_can_be_started(run: Command) -> None:
    for name in ("CliOrder", "cli_nap"):
        text = '{"user": "u1"}' if name == "CliOrder" else '{"seconds": 0}'
        assert run("start", name, "--import", SHOP, "--input", text).code == 0
    assert {flow["definition"] for flow in run("flows", "--json").data["flows"]} == {
        "workflow:CliOrder",
        "action:cli_nap",
    }


def test_flows_are_listed_page_by_page_and_by_filters(run: Command) -> None:
    ids = [started(run) for _ in range(3)]
    other = started(run, "--queue", "other")
    first = run("flows", "--limit", "3")
    assert "there are more: add --before" in first.err
    assert [flow_id in first.out for flow_id in (*ids, other)] == [False, True, True, True]
    rest = run("flows", "list", "--limit", "3", "--before", ids[1])
    assert (ids[0] in rest.out, rest.err) == (True, "")
    assert [flow["id"] for flow in run("flows", "--queue", "other", "--json").data["flows"]] == [other]
    assert len(run("flows", "--definition", "CliOrder", "--status", "ready", "--json").data["flows"]) == 4
    assert run("flows", "--definition", "CliDelivery").out == "No flows match.\n"


def test_flows_are_told_to_pause_resume_and_cancel_with_who_and_why(run: Command) -> None:
    flow_id = run("start", f"{SHOP}:CliNaps", "--input", '{"seconds": 3600}').out.strip()
    for verb, status in (("pause", "paused"), ("resume", None), ("cancel", "cancelled")):
        ran = run("flows", verb, flow_id, "--why", f"to {verb} it", "--by", "ann", "--json")
        assert ran.data == {"id": flow_id, "requested": verb, "by": "ann", "why": f"to {verb} it"}
        if status:
            work_off()
            assert run("explain", flow_id, "--json").data["status"] == status
    text = run("explain", flow_id).out
    assert text.startswith("CliNaps: cancelled by ann (to cancel it)\n")
    assert "paused by ann (to pause it)" in text
    assert "is cancelled" in run("flows", "pause", flow_id, "--why", "x").refused()
    result = run("flows", "result", flow_id)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("redrive: no result: cancelled by ann (to cancel it)")


def test_who_did_it_is_by_default_the_login_name(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "night-shift")
    assert run("flows", "cancel", started(run), "--why", "x", "--json").data["by"] == "night-shift"


@pytest.mark.parametrize("group", ["flows", "dead"])
def test_a_group_says_that_it_lists_when_nothing_else_is_asked(run: Command, group: str) -> None:
    said = " ".join(run(group, "--help").out.split())
    assert "Without a command, list them with the options of `list`: redrive" in said


def test_a_message_that_nobody_can_read_is_told_of(run: Command) -> None:
    flow_id = started(run)
    said = run("flows", "cancel", flow_id, "--why", "its code is gone").out
    assert "but no live worker knows workflow:CliOrder, so nothing happens until you start one: redrive worker" in said
    assert "a worker to read 1 message (a request to cancel, to resume, or the like)" in run("explain", flow_id).out


def test_explain_shows_text_and_data(run: Command) -> None:
    flow_id = dead(run)
    text = run("explain", flow_id).out
    assert text.startswith("CliOrder: failed for good: cli_pay gave up after 3 attempts (exhausted): ConnectionError")
    with redrive.open_sync(worker=False) as app:
        assert f"{app.explain(flow_id)}\n" == text
    data = run("explain", flow_id, "--json").data
    assert [len(entry.get("attempts", [])) for entry in data["timeline"]] == [3, 0]


# dead


def test_dead_letters_are_listed_and_shown(run: Command) -> None:
    started(run)
    assert run("dead").out == "No dead letters match.\n"
    flow_id = dead(run)
    refused = run("start", f"{SHOP}:refuse", "--input", '{"why": "no"}').out.strip()
    work_off()
    assert flow_id in run("dead").out
    letters = run("dead", "--json").data["dead_letters"]
    assert [(letter["flow_id"], letter["kind"]) for letter in letters] == [
        (flow_id, "exhausted"),
        (refused, "permanent"),
    ]
    for filters, expected in (
        (("--kind", "permanent"), [refused]),
        (("--step", "cli_pay"), [flow_id]),
        (("--error", "ConnectionError"), [flow_id]),
        (("--definition", "cli_refuse"), [refused]),
        (("--definition", "CliOrder", "--kind", "permanent"), []),
    ):
        found = run("dead", "list", *filters, "--json").data["dead_letters"]
        assert [letter["flow_id"] for letter in found] == expected
    assert "there are more: add --after" in run("dead", "--limit", "1").err
    following = run("dead", "--after", flow_id, "--json").data["dead_letters"]
    assert [letter["flow_id"] for letter in following] == [refused]
    assert run("dead", "--after", "gone").refused().startswith("no flow gone in sqlite:")
    assert (
        run("dead", "--kind", "bogus")
        .refused()
        .startswith("--kind: 'bogus' is not a kind of failure; use one of permanent, unknown, unmatched,")
    )
    shown = run("dead", "show", flow_id, "--json").data
    assert shown["dead_letter"]["payload"] == '{"user":"u1","failures":9}'
    assert len(shown["explanation"]["timeline"][0]["attempts"]) == 3
    assert run("dead", "show", flow_id).out == run("explain", flow_id).out


@pytest.mark.promise("P17")
def test_a_dead_flow_is_put_back_to_work_and_its_story_says_by_whom(run: Command) -> None:
    flow_id = dead(run, failures=4)
    assert run("dead", "redrive", flow_id, "--why", "the bank is back", "--by", "ann").out == (
        "1 dead letter redriven\n"
    )
    work_off()
    assert run("flows", "result", flow_id).data == {"user": "u1", "paid": "paid 100"}
    assert "redriven by ann (the bank is back): cli_pay (item 1) is tried again" in run("explain", flow_id).out
    assert "is no longer dead: it was redriven by ann" in run("dead", "redrive", flow_id, "--why", "again").refused()


def test_many_are_settled_by_filters_after_a_question(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [dead(run) for _ in range(3)]
    ran = run("dead", "discard", "--all", "--why", "too late")
    assert (
        ran.refused() == "discard 3 dead letters? nothing was done, because there is no terminal to ask on; add --yes"
    )

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert run("dead", "discard", "--all", "--why", "too late").refused() == (
        "discard 3 dead letters? [y/N] redrive: stopped; nothing was done"
    )
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    ran = run("dead", "discard", "--step", "cli_pay", "--error", "ConnectionError", "--why", "too late")
    assert (ran.code, ran.out) == (0, "3 dead letters discarded\n")
    assert run("dead", "--json").data["dead_letters"] == []
    assert run("dead", "--state", "any").out.count(" discarded") == 3
    assert "discarded" not in run("dead", "--state", "discarded").out
    discarded = run("dead", "--state", "discarded", "--json").data["dead_letters"]
    assert {(letter["flow_id"], letter["why"]) for letter in discarded} == {(flow_id, "too late") for flow_id in ids}
    assert run("dead", "redrive", "--all", "--why", "x", "--yes", "--json").data["settled"] == []


@pytest.mark.parametrize("width", [20, 40, 50, 60, 80])
def test_a_narrow_terminal_shows_all_of_a_list_and_its_ids_in_one_piece(
    run: Command, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    ids = [started(run, "--key", key) for key in ("first", "second")]
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    out = run("flows").out
    assert [flow_id in out for flow_id in ids] == [True, True]
    if width < 80:
        # Below that there is no room for a table.
        assert re.findall(r"^(\S+)  +(.*)$", out.split("\n\n")[1], re.MULTILINE)[:3] == [
            ("flow", ids[0]),
            ("definition", "workflow:CliOrder"),
            ("status", "ready"),
        ]
        assert "key         first" in out


def test_arguments_that_are_no_text_are_refused_in_one_line(run: Command) -> None:
    flow_id = dead(run)
    for words in (
        ("dead", "redrive", flow_id, "--why", "because \udcff"),
        ("explain", "\udcff"),
        ("flows", "--definition", "\udcff"),
        ("worker", SHOP, "--queue", "\udcff"),
        ("start", f"{SHOP}:refuse", "--input", '{"why": "\udcff"}'),
    ):
        said = run(*words).refused()
        assert said.startswith("the argument '")
        assert said.endswith("is not valid UTF-8")


def test_several_ids_are_settled_together_or_not_at_all(run: Command) -> None:
    ids = [dead(run) for _ in range(2)]
    alive = started(run)
    assert (
        f"flow {alive} is not a dead letter: it is ready" in run("dead", "redrive", *ids, alive, "--why", "x").refused()
    )
    assert run("dead", "redrive", *ids, "--why", "x", "--json").data["settled"] == ids


# doctor


def checks(ran: Ran) -> dict[str, tuple[str, str]]:
    return {check["check"]: (check["status"], check["text"]) for check in ran.data}


def test_doctor_finds_what_nobody_takes_up(run: Command, store: str) -> None:
    assert run("doctor").code == 1, "there is no store yet"
    dead(run)
    healthy = run("doctor", "--json")
    assert healthy.code == 0
    found = checks(healthy)
    assert found["store"][0] == found["writing"][0] == found["clock"][0] == found["reachable"][0] == "ok"
    assert found["dead letters"] == ("warn", "1 (1 exhausted); list them: redrive dead")
    flow_id = started(run)
    park(store, flow_id)
    waiting = started(run, "--queue", "mail")
    sick = run("doctor", "--json")
    assert sick.code == 1
    found = checks(sick)
    assert found["reachable"][0] == "fail"
    assert "no live worker can run 1 of workflow:CliOrder in queue mail" in found["reachable"][1]
    assert found["parked"] == (
        "warn",
        (
            f"1 parked until their code is fixed: redrive explain {flow_id}; "
            "then: redrive flows resume --parked --why 'the code is fixed'"
        ),
    )
    assert f"redrive explain {waiting}" in found["ready"][1]
    assert run("doctor").out.splitlines()[3].startswith("warn  workers")


def park(store: str, flow_id: str) -> None:
    with sqlite3.connect(store[10:]) as database:
        database.execute("UPDATE flows SET status = 'parked' WHERE id = ?", (flow_id,))
        line = write_turn([write_event(FlowParked(problem="line 3 of the log says otherwise"))])
        database.execute("INSERT INTO events (flow_id, seq, at, body) VALUES (?, 1, 0, ?)", (flow_id, line))
    database.close()


def test_doctor_says_that_a_queue_is_full_and_who_works(run: Command) -> None:
    async def look() -> dict[str, tuple[str, str]]:
        async with redrive.open() as app:
            await app.limit_queue("default", 1)
            while not await app.store.list_workers():  # noqa: ASYNC110 - the worker is in a store
                await asyncio.sleep(0.01)
            return checks(await asyncio.to_thread(run, "doctor", "--json"))

    run("start", *order())
    found = asyncio.run(look())
    assert found["queue limit"][1].startswith("default: ")
    assert found["workers"][1].startswith("1 alive: ")


def test_another_doctor_that_looks_at_the_store_is_no_worker(run: Command) -> None:
    flow_id = started(run)

    async def join(seconds: float, *commands: tuple[str, ...]) -> list[Ran]:
        async with redrive.open(worker=False) as app:
            await app.store.acquire_lease(NewWorker(name="doctor", definitions=()), seconds)
            return [await asyncio.to_thread(run, *command) for command in commands]

    doctor, explain, flows = asyncio.run(join(60.0, ("doctor", "--json"), ("explain", flow_id), ("flows",)))
    assert checks(doctor)["workers"] == ("warn", "none is alive; start one: redrive worker MODULE")
    assert "no worker is alive" in explain.out
    assert "live worker" not in flows.out
    # One that was killed while it looked.
    (doctor,) = asyncio.run(join(0.0, ("doctor", "--json")))
    assert "lease" not in checks(doctor)


def test_the_whole_round_on_postgresql(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_STORE", shared_server().fresh_database())
    assert run("run", *order(failures=1)).data["paid"] == "paid 100"
    flow_id = dead(run)
    assert run("dead", "discard", flow_id, "--why", "x").code == 0
    assert run("explain", flow_id).out.startswith("CliOrder: failed for good")
    assert checks(run("doctor", "--json"))["clock"] == ("ok", "this machine's clock and the store's agree")


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_who_is_alive_is_told_by_the_clock_of_the_store(
    run: Command, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    address = shared_server().fresh_database()
    monkeypatch.setenv("REDRIVE_STORE", address)
    monkeypatch.setattr(SystemClock, "wall", staticmethod(lambda: time.time() + ahead))

    async def join() -> None:
        async with redrive.open(address, worker=False) as app:
            await app.store.acquire_lease(NewWorker(name="here:1", definitions=("workflow:CliOrder",)), 60.0)
            await app.store.acquire_lease(NewWorker(name="gone:2", definitions=()), 0.0)

    asyncio.run(join())
    started(run)
    found = run("doctor", "--json")
    assert found.code == 0
    assert checks(found)["clock"][0] == "warn"
    assert checks(found)["workers"] == ("ok", "1 alive: here:1 (0 flows, queues all)")
    assert checks(found)["lease"][1].startswith("the lease of gone:2 has expired")


MADE_IN_PYTHON = """
import redrive
from redrive import Graph, action
from redrive.pipeline import Pipeline

@action
async def cli_pack(parcel: str) -> str:
    return f"{parcel} is packed"

async def price(ctx):
    return {"cents": 100 * ctx.data["items"]}

packing = Graph("cli_packing").step("pack", cli_pack)
redrive.register_graph(Graph("cli_other_packing").step("pack", cli_pack))
pricing = Pipeline("cli_pricing").with_stage("price", price)
unnamed = Pipeline().with_stage("price", price)
"""


def test_graphs_and_pipelines_of_a_module_are_run_by_their_names(run: Command, tmp_path: Path) -> None:
    (tmp_path / "made_in_python.py").write_text(MADE_IN_PYTHON)
    assert run("run", "made_in_python:packing", "--input", '{"parcel": "p-1"}').data == {"pack": "p-1 is packed"}
    named = ("cli_other_packing", "--import", "made_in_python")
    assert run("run", *named, "--input", '{"parcel": "p-2"}').data == {"pack": "p-2 is packed"}
    priced = run("run", "made_in_python.py:pricing", "--input", '{"data": {"items": 3}}')
    assert priced.data == {"price": {"cents": 300}}
    assert "workers find a durable pipeline by its name" in run("run", "made_in_python:unnamed").refused()


# What is refused


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "no_such_module:Billing"), "there is no module 'no_such_module'"),
        (("run", "missing.py:Billing"), "missing.py: there is no such file"),
        (("run", f"{SHOP}:CliOder"), "there is no definition named 'CliOder'; did you mean CliOrder?"),
        (("run", f"{SHOP}:zzz"), "there is no definition named 'zzz'; known: "),
        (("run", f"{SHOP}:not_a_workflow"), "'not_a_workflow' is not a definition"),
        (("run", "CliOrder"), "CliOrder: write MODULE:NAME"),
        (("run", f"{SHOP}:CliOrder"), "CliOrder: --input lacks user"),
        (("run", f"{SHOP}:CliOrder", "--input", '{"usr": "u1"}'), "no argument is named 'usr'; did you mean 'user'?"),
        (("run", f"{SHOP}:CliOrder", "--input", '{"user": 1}'), "--input does not fit: Expected `str`, got `int`"),
        (("run", f"{SHOP}:CliOrder", "--input", '["u1"]'), '--input must be a JSON object, not ["u1"]'),
        (("run", f"{SHOP}:CliOrder", "--input", "{user: u1}"), "--input is not valid JSON: "),
        (("run", *order(), "--timeout", "soon"), "--timeout: 'soon' is not a duration"),
        (("run", *order(), "--key", "k" * 501), "key: use a text of 1 to 500 characters"),
        (("run", *order(), "--key", ""), "key: use a text of 1 to 500 characters"),
        (("start", *order(), "--key", ""), "key: use a text of 1 to 500 characters"),
        (("run", *order(), "--queue", ""), "queue: use a name of 1 to 200 characters"),
        (("run", *order(), "--store", "nowhere"), "nowhere is not the URL of a store"),
        (("run", *order(), "--store", "sqlite:///no/such/folder/app.db"), "no/such/folder does not exist; create it"),
        (("run", *order(), "--store", "mysql://root@db/x"), "mysql:// is not a kind of store"),
        (("start", "CliOrder"), "or name the module that registers it: --import MODULE"),
        (("start", "CliOder", "--import", SHOP), "did you mean CliOrder?"),
        (("start", *order(), "--delay", "later"), "--delay: 'later' is not a duration"),
        (("start", *order(), "--delay", "1000000000d"), "delay: a flow begins within ten years"),
        (("start", *order(), "--priority", "99999999999"), "priority: 99999999999 is not allowed"),
        (("start", *order(), "--store", "memory://"), "a store in memory ends with this command"),
        (("worker",), "Missing argument"),
        (("worker", "no_such_module"), "there is no module 'no_such_module'"),
        (("worker", SHOP, "--queue", ""), "--queue: '' is not allowed; use a name of 1 to 200 characters"),
        (("worker", SHOP, "--lease", "x"), "--lease: 'x' is not a duration"),
        (("worker", SHOP, "--lease", "0s"), "--lease: 0.0 is not allowed"),
        (("worker", SHOP, "--lease", "1ms"), "--lease: 0.001 is not allowed; use 500ms to 36500d"),
        (("worker", SHOP, "--keep-finished", "99999d"), "--keep-finished: 8639913600.0 is not allowed; use 0s to"),
        (
            ("worker", SHOP, "--threads", "1000000"),
            "--threads: 1000000 is not allowed; use a whole number from 1 to 10000",
        ),
        (("worker", SHOP, "--threads", "0"), "--threads: 0 is not allowed"),
        (("worker", SHOP, "--processes", "0"), "--processes"),
        (("worker", SHOP, "--log-level", "loud"), "--log-level: 'loud' is not a log level"),
        (("flows", "--status", "lost"), "--status: 'lost' is not a valid status; use one of ready, waiting, running"),
        (("flows", "--limit", "0"), "--limit"),
        (("flows", "frobnicate"), "No such command 'frobnicate'"),
        (("flows", "cancel", NO_FLOW), "--why is missing"),
        (("flows", "cancel", NO_FLOW, "--why", "x"), f"no flow {NO_FLOW} in "),
        (("flows", "result", NO_FLOW), f"no flow {NO_FLOW} in "),
        (("explain", NO_FLOW), f"no flow {NO_FLOW} in "),
        (("dead", "show", NO_FLOW), f"no flow {NO_FLOW} in "),
        (("dead", "redrive", "--why", "x"), "no dead letters are selected; name flows"),
        (("dead", "redrive"), "or add --all; also give a reason with --why"),
        (("dead", "redrive", NO_FLOW, "--all", "--why", "x"), "name flows, or select them with filters or --all"),
        (("dead", "redrive", NO_FLOW), "--why is missing"),
        (("dead", "discard", NO_FLOW, "--why", "x"), f"no flow {NO_FLOW} in "),
        (("dead", "--state", "alive"), "--state: 'alive' is not a valid state"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(arguments: tuple[str, ...], says: str, run: Command) -> None:
    started(run)
    assert says in run(*arguments).refused()


UNIMPORTABLE = {
    "lacking": ("import no_such_dependency", "ModuleNotFoundError: No module named 'no_such_dependency'"),
    "dividing": ("1 / 0", "ZeroDivisionError: division by zero (cli_dividing.py:1)"),
    "unreadable": ("def broken(:", "SyntaxError: "),
    "leaving": ("raise SystemExit(3)", "SystemExit: 3"),
    "full": ("raise OSError(28, 'No space left on device')", "OSError: [Errno 28] No space left on device"),
    "telling": ("raise ValueError('password=hunter2-and-more')", "ValueError: password=***"),
    "empty": ("x = 1", "there is no definition named 'Billing'"),
}


@pytest.mark.parametrize("name", UNIMPORTABLE)
def test_a_module_that_cannot_be_imported_is_one_line(name: str, run: Command, tmp_path: Path) -> None:
    content, says = UNIMPORTABLE[name]
    (tmp_path / f"cli_{name}.py").write_text(content)
    assert says in run("run", f"cli_{name}:Billing").refused()


def test_two_files_of_one_name_are_told_apart(run: Command, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("x = 1")
    assert "another module is already named 'json'" in run("worker", "json.py").refused()
    (tmp_path / "my-flows.py").write_text("x = 1")
    assert "'my-flows' is not a valid module name; rename the file" in run("worker", "my-flows.py").refused()


@pytest.mark.parametrize("command", ["flows", "dead", "explain", "doctor"])
def test_looking_at_a_store_that_is_not_there_does_not_create_it(command: str, run: Command, tmp_path: Path) -> None:
    ran = run(command, *([NO_FLOW] if command == "explain" else []))
    assert "there is no such file; name the store with --store or REDRIVE_STORE" in ran.out + ran.err
    assert not (tmp_path / "app.db").exists()


@pytest.mark.parametrize("command", ["flows", "start", "worker"])
def test_an_unreachable_database_and_a_wrong_password_are_one_line(command: str, run: Command) -> None:
    arguments = {"flows": ("flows",), "start": ("start", *order()), "worker": ("worker", SHOP)}[command]
    said = run(*arguments, "--store", "postgresql://app:hunter2-and-more@127.0.0.1:1/app").refused()
    assert "cannot connect" in said
    assert "hunter2" not in said
    wrong = shared_server().url(user=GUARDED_USER, password="not-" + GUARDED_PASSWORD)
    said = run(*arguments, "--store", wrong).refused()
    assert "check the user and the password" in said
    assert GUARDED_PASSWORD not in said


@pytest.mark.parametrize("command", ["flows", "run"])
def test_what_a_command_waits_for_is_told(command: str, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, is_held, address = io.StringIO(), threading.Event(), shared_server().fresh_database()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(migrator, "REPORT_AFTER", 0.01)

    async def hold_up() -> None:
        other = await asyncpg.connect(address)
        async with other.transaction(), asyncio.timeout(10):
            await other.execute("SELECT pg_advisory_xact_lock(hashtextextended('redrive', 0))")
            is_held.set()
            while not said.getvalue():  # noqa: ASYNC110 - stderr has no event
                await asyncio.sleep(0.01)
        await other.close()

    holder = threading.Thread(target=asyncio.run, args=(hold_up(),))
    holder.start()
    is_held.wait(10)
    assert main([command, *(order() if command == "run" else ()), "--store", address]) == 0
    holder.join()
    (line,) = said.getvalue().splitlines()
    assert re.fullmatch("redrive: .*: waiting for another process that is migrating the schema", line)


def test_a_store_from_a_newer_version_is_one_line(run: Command, store: str) -> None:
    started(run)
    with sqlite3.connect(store[10:]) as database:
        database.execute("INSERT INTO redrive_migrations VALUES (99, '0099_later.sql', 0)")
    database.close()
    assert "its schema has version 99" in run("flows").refused()
    assert run("worker", SHOP).refused().endswith("upgrade redrive, or use another store")
    assert (run("doctor").code, run("doctor").out.startswith("fail  store")) == (1, True)


def test_a_log_from_a_newer_version_is_one_line(run: Command, store: str) -> None:
    flow_id = started(run)
    with sqlite3.connect(store[10:]) as database:
        line = '{"type":"teleported"}'
        database.execute("INSERT INTO events (flow_id, seq, at, body) VALUES (?, 1, 0, ?)", (flow_id, line))
        database.execute("UPDATE flows SET status = 'failed', finished_at = 1 WHERE id = ?", (flow_id,))
    database.close()
    for command in (("explain",), ("flows", "result")):
        assert f"flow {flow_id}: a line of its log cannot be read by this version" in run(*command, flow_id).refused()


# Help


def commands() -> list[tuple[str, ...]]:
    names: list[tuple[str, ...]] = []
    app = build()
    names += [(str(command.name),) for command in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        names += [(str(group.name), str(command.name)) for command in group.typer_instance.registered_commands]
    return names


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_has_help_with_an_example(command: tuple[str, ...], run: Command) -> None:
    ran = run(*command, "--help")
    assert ran.code == 0
    shown = "redrive " + " ".join(word for word in command if word != "list")
    assert f"\n  {shown}" in ran.out.partition("Usage:")[2].partition("\n")[2]


def test_help_and_version_load_neither_engine_nor_event_loop() -> None:
    script = (
        "import sys; from redrive.cli import main; main(['--help']); main(['--version']); "
        "print(sorted({'asyncio', 'redrive.worker', 'redrive.stores', 'redrive.flows', 'rich'} & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - our own script
    assert finished.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def (", "cannot be imported: SyntaxError: invalid syntax (NAME.py, line 1)\n"),
        ("x = 1\nimport no_such_library", "ModuleNotFoundError: No module named 'no_such_library' (NAME.py:2)\n"),
        ("\n\nraise LookupError('no bank')", "cannot be imported: LookupError: no bank (NAME.py:3)\n"),
    ],
)
def test_a_module_that_cannot_be_imported_says_where(code: str, says: str, run: Command, tmp_path: Path) -> None:
    file = tmp_path / f"broken_{abs(hash(code))}.py"
    file.write_text(code)
    assert says.replace("NAME", file.stem) in run("worker", str(file)).refused() + "\n"
