"""`redrive serve`, `redrive keys` and `redrive steps`, through their entry points."""

import getpass
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
from tests.cli.running_command import RunningCommand, RunningCommands

from redrive.cli import main
from redrive.flows.graphs.graph import GRAPHS

SHOP = str(Path(__file__).with_name("durable_shop.py"))
GRAPH = """
graph: {name}
steps:
  greet:
    action: {action}
    inputs: {{cents: integer, failures: integer}}
    outputs: {{paid: string}}
"""
STEP = """
name: reserve
endpoint: https://shop.example.com/reserve
inputs: {order_id: string}
outputs: {reservation: string}
"""


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def refused(self) -> str:
        assert (self.code, self.out) == (2, ""), (self.code, self.out, self.err)
        return self.err


class Command(Protocol):
    def __call__(self, *arguments: str) -> Ran: ...


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("REDRIVE_STORE", f"sqlite:///{tmp_path}/app.db")
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> Ran:
        code = main([*arguments])
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run_command


class Serve(Protocol):
    def __call__(self, *arguments: str) -> RunningCommand: ...


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with RunningCommands(tmp_path, "serve", r"redrive serves (http://\S+):") as begin:
        yield begin


def graph_file(folder: Path, name: str, action: str = "cli_pay") -> str:
    path = folder / f"{name}.yaml"
    path.write_text(GRAPH.format(name=name, action=action))
    return str(path)


# serve


def test_a_server_works_on_what_it_is_asked_and_stops_gracefully(serve: Serve, tmp_path: Path) -> None:
    server = serve(SHOP, "--graphs", graph_file(tmp_path, "greeting"))
    assert re.search(
        r"3 workflows, \d actions, 1 graph; no API keys, for this machine only; with a worker", server.said
    )
    started = server.client.post("/v1/flows", json={"graph": "greeting", "inputs": {"cents": 5, "failures": 1}})
    assert started.status_code == 201, started.text
    path = f"/v1/flows/{started.json()['id']}"
    server.until(lambda: server.client.get(path).json()["status"] == "completed")
    assert server.client.get(path).json()["result"] == {"paid": "paid 5"}
    nap = server.client.post("/v1/flows", json={"workflow": "CliNaps", "inputs": {"seconds": 3600}}).json()["id"]
    with server.client.stream("GET", f"/v1/flows/{nap}/events", headers={"Accept": "text/event-stream"}) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        assert server.stop() == 0
        assert "event: end" not in list(lines)
    assert "Traceback" not in server.said


def test_a_server_without_a_worker_leaves_the_work_to_others(serve: Serve) -> None:
    server = serve(SHOP, "--no-worker")
    assert "; without a worker; " in server.said
    flow = server.client.post("/v1/flows", json={"action": "cli_pay", "inputs": {"cents": 5, "failures": 0}}).json()
    assert server.client.get("/v1/workers").json() == {"workers": []}
    assert server.client.get(f"/v1/flows/{flow['id']}").json()["status"] == "ready"
    assert server.stop() == 0


def test_keys_are_asked_for_from_the_first_one_on_and_never_shown(serve: Serve, run: Command) -> None:
    made = run("keys", "add", "--role", "read", "--name", "ci")
    key = made.out.strip()
    server = serve("--no-worker", "--host", "0.0.0.0")  # noqa: S104 - with a key, this is what is allowed
    assert "; 1 API key; " in server.said
    url = str(server.client.base_url).replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - as above
    with httpx.Client(base_url=url) as client:
        assert client.get("/v1/flows").status_code == 401
        assert client.get("/v1/flows", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert server.stop() == 0
    assert key.split("_")[2] not in server.said


def test_other_machines_are_not_let_in_without_a_key(run: Command) -> None:
    said = run("serve", "--host", "0.0.0.0", "--port", "0").refused()  # noqa: S104 - this is refused
    assert "there is no API key; create one first: redrive keys add --role admin --name NAME" in said


def test_a_port_that_is_taken_is_one_line(run: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = run("serve", "--port", port).refused()
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("no_such_module",), "there is no module 'no_such_module'"),
        (("--graphs", "nowhere.yaml"), "nowhere.yaml cannot be read: No such file or directory"),
        (("--graphs", "."), ".: the folder has no file that ends with .yaml, .yml, .json"),
        (("--port", "70000"), "Invalid value for '--port'"),
        (("--log-level", "loud"), "--log-level: 'loud' is not a log level"),
        (("--allow", "10.0.0.0/99", "--port", "0"), "10.0.0.0/99"),
        (("--callback-base", "ftp://x", "--port", "0"), "--callback-base: use the public URL"),
        (("--host", "256.1.1.1", "--port", "0"), "cannot listen on 256.1.1.1:0"),
    ],
)
def test_what_cannot_be_served_is_one_line(run: Command, arguments: tuple[str, ...], says: str) -> None:
    said = run("serve", *arguments).refused()
    assert says in said
    assert len(said.splitlines()) == 1


def test_everything_that_is_wrong_with_all_graphs_is_told_at_once(run: Command, tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "a.yaml").write_text("graph: a\nsteps:\n  x: {endpoint: http://127.0.0.1/x, retry: {retry_limit: 3}}\n")
    (folder / "b.json").write_text('{"graph": "b", "steps": {"y": {"acton": "z"}}, "goals": ["nope"]}')
    (folder / "notes.txt").write_text("no graph")
    said = run("serve", "--graphs", str(folder)).refused().splitlines()
    assert any(line.startswith(f"{folder}/a.yaml:3: ") and "retry_limit" in line for line in said), said
    assert any(line.startswith(f"{folder}/b.json") and "acton" in line for line in said), said
    assert any(line.startswith(f"{folder}/b.json") and "nope" in line for line in said), said


def test_two_graphs_of_one_name_are_refused(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GRAPHS, "by_name", {})  # other commands of this process must not find it
    one = graph_file(tmp_path, "twice")
    two = tmp_path / "other.yaml"
    two.write_text(Path(one).read_text())
    said = run("serve", SHOP, "--graphs", one, "--graphs", str(two)).refused()
    assert "two graphs are named 'twice'" in said


def test_a_missing_extra_says_what_to_install(tmp_path: Path) -> None:
    script = "import sys; sys.modules['litestar'] = None; from redrive.cli import main; sys.exit(main(['serve']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60)  # noqa: S603 - our own script
    assert done.returncode == 2
    assert "pip install 'redrive[server]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# keys


@pytest.mark.promise("X9")
def test_a_server_whose_last_key_was_revoked_is_opened_only_by_command(serve: Serve, run: Command) -> None:
    id_ = json.loads(run("keys", "add", "--role", "read", "--name", "ci", "--json").out)["id"]
    assert "there still are API keys" in run("keys", "open").refused()
    run("keys", "revoke", id_)
    server = serve("--no-worker")
    assert "all API keys revoked, for nobody" in server.said
    assert server.client.get("/v1/flows").status_code == 401
    assert run("keys", "open").out == "A server on loopback serves this machine without keys.\n"
    assert json.loads(run("keys", "open", "--json").out) == {"opened": False}
    server.until(lambda: server.client.get("/v1/flows").status_code == 200)


def test_a_key_is_made_listed_without_its_secret_and_revoked(run: Command) -> None:
    assert run("keys").refused().endswith("name the store with --store or REDRIVE_STORE\n")
    made = run("keys", "add", "--role", "operate", "--name", "ci")
    assert (made.code, len(made.out.split())) == (0, 1)
    prefix, id_, secret = made.out.strip().split("_")
    assert (prefix, len(secret)) == ("rdk", 64)
    assert "not shown again" in made.err
    listed = run("keys")
    assert id_ in listed.out
    assert "operate" in listed.out
    assert secret not in listed.out
    (key,) = json.loads(run("keys", "list", "--json").out)["keys"]
    assert (key["id"], key["name"], key["role"]) == (id_, "ci", "operate")
    assert secret.encode() not in Path("app.db").read_bytes()
    revoked = run("keys", "revoke", id_)
    assert revoked.out == f"Revoked key {id_}.\n"
    assert revoked.err == "It was the last key: the server refuses requests. Add one, or: redrive keys open\n"
    assert "no API key has the id" in run("keys", "revoke", id_).refused()
    assert run("keys").out.startswith("No API keys are left, so the server refuses all requests.")
    assert json.loads(run("keys", "list", "--json").out) == {"keys": []}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--role", "root", "--name", "ci"),
            "--role: 'root' is not a role; use one of read, read:payload, operate, admin",
        ),
        (("--role", "read", "--name", " "), "--name must be 1 to 100"),
        (("--role", "read", "--name", "a\nb"), "--name must be 1 to 100"),
        (("--role", "read"), "--name"),
        (("--role", "read", "--name", "x", "--expires", "soon"), "--expires: "),
        (("--role", "read", "--name", "x", "--expires", "0"), "--expires: '0' is not allowed"),
        (("--role", "read", "--name", "x", "--expires", "999999d"), "at most 100 years"),
        (("--role", "read", "--name", "x", "--queue", ""), "--queue: '' is not a queue"),
        (("--role", "read", "--name", "x", "--definition", "a\nb"), "is not a definition"),
        (
            ("--role", "read", "--name", "x", "--definition", "nosuch:order"),
            "--definition: 'nosuch:order' is not a definition; use NAME, or workflow:NAME, action:NAME, ",
        ),
        (("--role", "read", "--name", "x", "--definition", "graph:"), "'graph:' is not a definition"),
        (("--role", "admin", "--name", "x", "--queue", "mail"), "the role admin cannot be limited"),
    ],
)
def test_a_wrong_key_is_refused(run: Command, arguments: tuple[str, ...], says: str) -> None:
    assert says in run("keys", "add", *arguments).refused()


@pytest.mark.promise("X10")
def test_a_key_expires_is_limited_and_rotated_without_a_gap(run: Command) -> None:
    made = run("keys", "add", *("--role", "operate", "--name", "ci", "--expires", "30d", "--json"), "--queue", "mail")
    old = json.loads(made.out)
    assert old["queues"] == ["mail"]
    added = json.loads(run("keys", "rotate", old["id"], "--grace", "2h", "--json").out)
    assert {**added, "id": "", "key": "", "created_at": "", "expires_at": ""} == {
        **old,
        "id": "",
        "key": "",
        "created_at": "",
        "expires_at": "",
    }
    assert added["key"] != old["key"]
    first, second = json.loads(run("keys", "--json").out)["keys"]

    def days(key: Any) -> float:
        life = datetime.fromisoformat(key["expires_at"]) - datetime.fromisoformat(key["created_at"])
        return life.total_seconds() / 86_400

    assert (round(days(first), 1), round(days(second), 1)) == (0.1, 30)
    again = run("keys", "rotate", second["id"], "--grace", "0")
    assert "(operate, limited to queue mail, accepted until " in again.err.splitlines()[0]
    assert again.err.splitlines()[1].startswith(f"Key {second['id']} is accepted until ")
    late = run("keys", "rotate", second["id"])
    assert late.err.splitlines()[1].startswith(f"Key {second['id']} is not accepted any more: it expired at ")
    table = run("keys").out
    assert "queue mail" in table
    assert "expired" in table
    assert old["key"].split("_")[2] not in table


@pytest.mark.promise("X10")
def test_commands_leave_a_trail(run: Command, tmp_path: Path) -> None:
    (tmp_path / "reserve.yaml").write_text(STEP)
    id_ = run("keys", "add", "--role", "read", "--name", "board").out.split("_")[1]
    run("steps", "add", "reserve.yaml")
    run("steps", "drop", "reserve")
    run("keys", "revoke", id_)
    entries = json.loads(run("audit", "--json").out)["entries"]
    assert [(one["action"], one["target"]) for one in entries] == [
        *(("key.revoke", id_), ("step.drop", "reserve"), ("step.register", "reserve"), ("key.add", id_)),
    ]
    assert {one["actor"] for one in entries} == {f"user {getpass.getuser()}"}
    assert {one["origin"] for one in entries} == {f"command line on {socket.gethostname()}"}
    assert entries[-1]["detail"] == "board, role read, expires never"
    assert len(json.loads(run("audit", "--action", "key.add", "--json").out)["entries"]) == 1
    assert "step.drop" in run("audit", "--limit", "2").out
    assert run("audit", "--target", "none").out == "The audit log has no such entries.\n"


# steps


def test_steps_are_added_replaced_listed_and_dropped(run: Command, tmp_path: Path) -> None:
    (tmp_path / "reserve.yaml").write_text(STEP)
    assert run("steps", "add", "reserve.yaml").out == "added reserve\n"
    assert run("steps", "add", "reserve.yaml").out == "replaced reserve\n"
    assert "https://shop.example.com/reserve" in run("steps").out
    listed = run("steps", "--json").out
    assert json.loads(listed)["steps"]["reserve"]["outputs"] == {"reservation": "string"}
    # What is listed can be added again.
    (tmp_path / "all.json").write_text(listed)
    assert json.loads(run("steps", "add", "all.json", "--json").out) == {"steps": [{"name": "reserve", "new": False}]}
    assert run("steps", "drop", "reserve").out == "dropped reserve\n"
    assert "no step in the catalogue is named 'reserve'" in run("steps", "drop", "reserve").refused()
    assert run("steps").out.startswith("The catalogue has no steps")


def test_all_that_is_wrong_with_steps_is_told_with_its_place(run: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("steps:\n  a: {endpoint: http://x/, inputs: {b: text}}\n  c: {acton: d}\n")
    said = run("steps", "add", "bad.yaml").refused().splitlines()
    assert any(line.startswith("bad.yaml:2: ") and "text" in line for line in said), said
    assert any(line.startswith("bad.yaml:3: ") and "acton" in line for line in said), said
    (tmp_path / "bad.yaml").write_text("[")
    assert run("steps", "add", "bad.yaml").refused().startswith("bad.yaml:")
    assert "cannot be read" in run("steps", "add", "nowhere.yaml").refused()
