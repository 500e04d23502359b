"""Files with scripts on the command line: run, start and worker."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

import redrive
from redrive.cli import main
from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.definitions.named import load
from redrive.cli.processes import registered_definitions
from redrive.flows.graphs.graph import GRAPHS
from redrive.flows.graphs.notation.graph_reading import LARGEST_GRAPH
from redrive.flows.scripts.script import SCRIPTS, script_named

ACTIONS = """
from redrive import action

@action(name="rd.greet")
async def greet(name: str) -> str:
    return f"hello {name}"
"""
ORDER = """
fn main(name, times=1):
    said = []
    for n in range(times):
        said += [@rd.greet(name=name) [ConnectionError -> retry: 2, backoff: 1s]]
    return said
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REDRIVE_STORE", f"sqlite:///{tmp_path}/app.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "greeting_actions", raising=False)
    (tmp_path / "greeting_actions.py").write_text(ACTIONS, encoding="utf-8")
    (tmp_path / "greeting.rd").write_text(ORDER, encoding="utf-8")
    return tmp_path


def test_run_carries_out_a_script_with_the_actions_of_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--input", '{"name": "ann", "times": 2}', "--import", "greeting_actions"]
    assert main(["run", "greeting.rd", *given]) == 0
    assert json.loads(capsys.readouterr().out) == ["hello ann", "hello ann"]


def test_start_keeps_the_script_for_a_worker_that_knows_its_actions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["start", "greeting.rd", "--input", '{"name": "bob"}']) == 0
    flow_id = capsys.readouterr().out.strip()
    load(["greeting.rd", "greeting_actions.py"])

    async def work() -> object:
        async with redrive.open(f"sqlite:///{folder}/app.db") as app:
            return await app.handle(flow_id).result(timeout=20)

    assert asyncio.run(work()) == ["hello bob"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"nmae": "ann"}', "redrive: greeting: no input is named 'nmae'; did you mean 'name'?"),
        ("{}", "redrive: greeting: the inputs lack name"),
    ],
)
def test_inputs_that_do_not_fit_are_one_line(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "greeting.rd", "--input", given]) == 2
    assert capsys.readouterr().err.splitlines() == [said]


def test_all_that_is_wrong_with_a_file_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.rd").write_text("fn main():\n    x = = 1\n    y = 2 3\n", encoding="utf-8")
    assert main(["run", "bad.rd"]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bad.rd:")]
    assert [line.split(":")[1] for line in told] == ["2", "3"]
    with pytest.raises(BadFile, match=r"bad\.rd:2:"):
        load(["greeting.rd", "bad.rd"])


def test_two_files_of_one_name_are_refused(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "greeting.rd").write_text(ORDER, encoding="utf-8")
    with pytest.raises(BadInput, match="two scripts are named 'greeting'"):
        load(["greeting.rd", "other/greeting.rd"])


@pytest.mark.parametrize("command", [["run", "large.rd"], ["script", "check", "large.rd"], ["run", "large.yaml"]])
def test_of_a_file_that_is_too_large_no_more_is_read_than_that_takes(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / command[-1]).open("wb") as large:
        large.truncate(32 * 2**20)
    assert main(command) != 0
    said = "".join(capsys.readouterr()).replace(",", "")
    assert re.findall(r"has (\d+) characters", said) == [str(LARGEST_GRAPH + 1)]


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nowhere.rd"]) == 2
    assert "nowhere.rd cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "how"), [(["run", "late.rd"], "--import MODULE"), (["worker", "late.rd", "greeting_actions"], "MODULE")]
)
def test_actions_that_are_not_known_are_told_before_anything_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], command: list[str], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SCRIPTS, "by_name", {})
    load(["greeting_actions.py"])
    (folder / "late.rd").write_text("@rd.gret(name='x')\n@zzz777()\n@rd.greet(name='x')\n", encoding="utf-8")
    assert main(command) == 2
    assert capsys.readouterr().err.splitlines() == [
        "redrive: script late: unknown actions 'rd.gret' (did you mean 'rd.greet'?), 'zzz777'; also name the "
        f"module that registers them: {how}"
    ]
    assert not (folder / "app.db").exists()


def test_actions_of_a_graph_that_are_not_known_are_told_before_anything_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GRAPHS, "by_name", {})
    text = "graph: g\nsteps:\n  a: {action: zzz777, compensate: b}\n  b: {action: jjj333}\n"
    (folder / "g.yaml").write_text(text, encoding="utf-8")
    assert main(["run", "g.yaml"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "redrive: graph g: unknown actions 'jjj333', 'zzz777'; also name the module that registers them: "
        "--import MODULE"
    ]


def test_a_function_of_a_script_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "two.rd").write_text("fn one():\n    return 1\nfn other(n):\n    return n\n", encoding="utf-8")
    assert main(["run", "two.rd", "--function", "other", "--input", '{"n": 2}']) == 0
    assert capsys.readouterr().out == "2\n"
    assert main(["start", "two.rd", "--function", "one"]) == 0
    capsys.readouterr()
    for words, said in (
        (["run", "two.rd"], "two: script two has no function main; name the one to run: one, other"),
        (
            ["start", "two.rd", "--function", "oter"],
            "--function: script two has no function 'oter'; did you mean 'other'?",
        ),
        (
            ["run", "greeting_actions:greet", "--function", "main"],
            "--function is only for scripts, and greet is not a script; leave it out",
        ),
    ):
        assert main(words) == 2
        assert capsys.readouterr().err.splitlines() == [f"redrive: {said}"]


def test_what_is_left_says_with_which_files_and_modules_it_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "nap.rd").write_text("sleep 1h\n@rd.greet(name='x')\n", encoding="utf-8")
    assert main(["run", "nap.rd", "--import", "greeting_actions", "--timeout", "10ms"]) == 124
    assert "it continues with: redrive worker nap.rd greeting_actions; to see" in capsys.readouterr().err


def test_a_flow_that_waits_for_an_action_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SCRIPTS, "by_name", {})
    (folder / "later.rd").write_text("@rd.later()\n", encoding="utf-8")
    load(["later.rd"])

    async def said(*words: str) -> str:
        assert await asyncio.to_thread(main, [*words]) == 0
        return capsys.readouterr().out

    async def story() -> None:
        async with redrive.open(f"sqlite:///{folder}/app.db", poll=0.05) as app:
            flow = (await app.start(script_named("later").call())).id
            async with asyncio.timeout(10):
                while (await app.find(flow)).status != "waiting":  # noqa: ASYNC110 - it is in a store
                    await asyncio.sleep(0.01)
            assert "waits for a worker that knows action 'rd.later'" in await said("flows")
            stuck = "stuck: it waits for a worker that knows action 'rd.later': no live worker does"
            assert stuck in await said("explain", flow)
            assert await asyncio.to_thread(main, ["doctor"]) == 1
            missing = "1 of script:later in queue default (it waits for a worker that knows action 'rd.later')"
            assert missing in capsys.readouterr().out
            assert "its worker will do so" in await said("flows", "cancel", flow, "--why", "x")
            with pytest.raises(redrive.FlowCancelledError):
                await app.handle(flow).result(timeout=10)
            other = (await app.start(script_named("later").call())).id
            assert "action 'rd.later', and no live worker does" in await said("flows", "pause", other, "--why", "x")
            assert "its worker will do so" in await said("flows", "cancel", other, "--force", "--why", "x")

    asyncio.run(story())


def test_the_ready_line_counts_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_definitions, "registered_counts", lambda: (2, 1, 0, 3))
    assert registered_definitions.count_definitions() == "2 workflows, 1 action, 3 scripts"
    monkeypatch.setattr(registered_definitions, "registered_counts", lambda: (0, 0, 1, 0))
    assert registered_definitions.count_definitions() == "1 graph"


def test_a_redrive_of_a_script_that_failed_in_its_own_text_says_that_it_will_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.rd").write_text("fn main():\n    return 1 // 0\n", encoding="utf-8")
    assert main(["run", "broken.rd"]) == 1
    capsys.readouterr()
    main(["dead", "--json"])
    (letter,) = json.loads(capsys.readouterr().out)["dead_letters"]
    assert main(["dead", "redrive", letter["flow_id"], "--why", "to see"]) == 0
    said = capsys.readouterr()
    assert said.out == "1 dead letter redriven\n"
    assert said.err == (
        f"redrive: flow {letter['flow_id']} failed in the script's own text, keeps that text, and will fail there "
        "again: correct the file, and start another flow\n"
    )


def test_help_says_who_ends_a_flow_by_force(capsys: pytest.CaptureFixture[str]) -> None:
    main(["flows", "cancel", "--help"])
    assert "live worker" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", [["worker"], ["serve", "--port", "0"]], ids=["worker", "serve"])
def test_a_script_that_check_refuses_is_refused_by_those_who_would_run_it(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else its flows fail one by one, in the night."""
    (folder / "wrong.rd").write_text("fn main(name):\n    return @rd.greet(nome=name)\n", encoding="utf-8")
    try:
        assert main(["script", "check", "wrong.rd", "--import", "greeting_actions"]) == 1
        said = capsys.readouterr().out.strip()
        assert said.startswith("wrong.rd:2:")
        assert main([*command, "wrong.rd", "greeting_actions"]) == 2
        assert said in capsys.readouterr().err
    finally:
        SCRIPTS.by_name.pop("wrong", None)


def test_signing_secrets_must_be_there_and_should_be_kept_from_others(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = folder / "secrets"
    secrets.write_text("# none yet\n\n", encoding="utf-8")
    secrets.chmod(0o600)
    monkeypatch.setenv("REDRIVE_SIGNING_SECRETS", str(secrets))
    given = ["run", "greeting.rd", "--input", '{"name": "ann"}', "--import", "greeting_actions"]
    assert main(given) == 2
    assert f"REDRIVE_SIGNING_SECRETS: {secrets} has no secrets; write an address" in capsys.readouterr().err
    secrets.write_text(f"https://shop.example.com/ whsec_{'a' * 32}\n", encoding="utf-8")
    assert main(given) == 0
    assert "can be read by" not in capsys.readouterr().err
    secrets.chmod(0o644)
    assert main(given) == 0
    told = f"redrive: {secrets} can be read by every user of this machine; chmod 600 {secrets}\n"
    assert capsys.readouterr().err.count(told) == 1
