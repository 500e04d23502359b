"""Exception classes are found again by their names, and those that are gone have stand-ins."""

import asyncio
import builtins
import gc
import json
import sqlite3
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import redrive
from redrive.flows.errors.stored_error import StoredError, rebuild_error, store_error
from redrive.flows.events import AttemptFailed

from .storing_errors import NetworkError


def test_a_class_that_is_gone_is_stood_in_for() -> None:
    error = NetworkError("payments is down")
    error.service = "payments"  # type: ignore[attr-defined]
    stored = store_error(error)
    gone = StoredError(
        type="gone.errors.Outer.ServiceDown",
        message=stored.message,
        lineage=(
            "gone.errors.Outer.ServiceDown",
            "gone.errors.NetworkError",
            *stored.lineage,
        ),
        module="gone.errors",
        state=stored.state,
    )
    rebuilt = rebuild_error(gone)
    kind = type(rebuilt)
    assert (kind.__name__, kind.__qualname__, kind.__module__) == ("ServiceDown", "Outer.ServiceDown", "gone.errors")
    assert isinstance(rebuilt, NetworkError)
    assert [base.__name__ for base in kind.__mro__[:3]] == ["ServiceDown", "NetworkError", "NetworkError"]
    assert kind.__mro__[1].__module__ == "gone.errors"
    assert str(rebuilt) == "payments is down"
    assert rebuilt.service == "payments"  # type: ignore[attr-defined]
    assert type(rebuild_error(gone)) is kind, "the same name is the same class"
    assert store_error(rebuilt) == gone


@pytest.mark.parametrize(
    "lineage",
    [
        ("gone.A", "gone.B", "builtins.OSError", "builtins.Exception", "builtins.BaseException"),
        (
            "gone.A",
            "builtins.KeyError",
            "builtins.LookupError",
            "gone.B",
            "builtins.Exception",
            "builtins.BaseException",
        ),
        (
            "gone.A",
            "gone.Mixin",
            "builtins.ValueError",
            "builtins.Exception",
            "builtins.BaseException",
            "typing.Generic",
        ),
        (
            "gone.A",
            "builtins.ConnectionError",
            "builtins.OSError",
            "builtins.LookupError",
            "builtins.Exception",
            "builtins.BaseException",
        ),
        ("gone.Stop", "builtins.KeyboardInterrupt", "builtins.BaseException"),
        ("gone.f.<locals>.A", "gone.f.<locals>.B", "builtins.Exception", "builtins.BaseException"),
    ],
)
def test_a_stand_in_has_the_names_of_all_the_bases(lineage: tuple[str, ...]) -> None:
    stored = StoredError(type=lineage[0], message="x", lineage=lineage, module="gone")
    rebuilt = rebuild_error(stored)
    assert store_error(rebuilt) == stored
    for name in lineage:
        if name.startswith("builtins."):
            assert isinstance(rebuilt, getattr(builtins, name.removeprefix("builtins.")))


def test_bases_that_do_not_go_together_still_give_an_exception() -> None:
    lineage = (
        "gone.A",
        "builtins.OSError",
        "builtins.UnicodeDecodeError",
        "builtins.Exception",
        "builtins.BaseException",
    )
    assert isinstance(rebuild_error(StoredError(type="gone.A", message="x", lineage=lineage)), OSError)


@pytest.mark.parametrize(
    "stored",
    [
        StoredError(type="", message=""),
        StoredError(type="ValueError", message="x"),
        StoredError(type="os.path", message="x", lineage=("os.path",), module="os"),
        StoredError(type="builtins.int", message="x", lineage=("builtins.int",)),
        StoredError(type="a\0b", message="x", lineage=("a\0b", "..", "builtins.ValueError")),
        StoredError(type="UnicodeDecodeError", message="x", args=[1]),
        StoredError(type="ValueError", message="x", args=[{"$": "nonsense", "of": 1}]),
        StoredError(type="ValueError", message="x", state={"__class__": 1, "a": {"$": "UUID", "of": "no"}}),
        StoredError(type="ExceptionGroup", message="x"),
        StoredError(type="ValueError", message="x", members=(StoredError(type="KeyError", message="y"),)),
    ],
)
def test_what_is_damaged_is_still_rebuilt(stored: StoredError) -> None:
    rebuilt = rebuild_error(stored)
    assert isinstance(rebuilt, BaseException)


def test_a_class_from_inside_a_function_is_found_while_it_lives() -> None:
    def define() -> type[Exception]:
        class Local(NetworkError):
            pass

        return Local

    first, second = define(), define()
    for kind in (first, second, first):
        stored = store_error(kind("x"))
        assert type(rebuild_error(stored)) is kind
    reference = weakref.ref(first)
    del first, second, kind
    gc.collect()
    assert reference() is None, "it is not kept alive"
    assert isinstance(rebuild_error(stored), NetworkError)


def test_a_class_that_is_imported_later_takes_the_place_of_its_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lineage = ("late_errors.Late", "builtins.Exception", "builtins.BaseException")
    stored = StoredError(type="late_errors.Late", message="x", lineage=lineage, module="late_errors")
    assert not hasattr(type(rebuild_error(stored)), "real")
    (tmp_path / "late_errors.py").write_text("class Late(Exception):\n    real = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import late_errors  # type: ignore[import-not-found]

    assert type(rebuild_error(stored)) is late_errors.Late


TRAP = """
import pathlib
pathlib.Path(__file__).with_name("imported").touch()
class Boom(ValueError): pass
"""
BODY = "SELECT body FROM events"


GATE: list[str] = []


@redrive.action(retry=redrive.Policy(attempts=1))
def classes_fail() -> None:
    raise ValueError("boom")


@redrive.action(retry=redrive.Policy(attempts=None, deadline=None, max_wait=0.05))
def classes_gate() -> None:
    if not GATE:
        raise ConnectionError("closed")


@redrive.workflow
class ClassesCaught(redrive.Workflow):
    async def run(self) -> str:
        try:
            await classes_fail()
        except ValueError as error:
            await classes_gate()
            return f"{type(error).__module__}: {error}"
        return "nothing failed"


@pytest.mark.promise("X12")
def test_a_row_that_names_a_module_does_not_import_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "row_trap.py").write_text(TRAP)
    monkeypatch.syspath_prepend(str(tmp_path))
    store = f"sqlite:///{tmp_path}/app.db"

    async def begin() -> str:
        async with redrive.open(store) as app:
            handle = await app.start(ClassesCaught.call())
            while not any(  # noqa: ASYNC110 - a store has no event for a line of a log
                one.event.item == 2 for one in await app.log(handle.id) if isinstance(one.event, AttemptFailed)
            ):
                await asyncio.sleep(0.01)
            return handle.id

    async def go_on(flow_id: str) -> str:
        async with redrive.open(store) as app:
            await app.explain(flow_id)
            await app.steps_of(flow_id)
            return str(await app.handle(flow_id).result())

    flow_id = asyncio.run(begin())
    with sqlite3.connect(tmp_path / "app.db") as connection:
        for seq, body in connection.execute("SELECT seq, body FROM events").fetchall():
            forged = body.replace('"type":"ValueError"', '"type":"row_trap.Boom","module":"row_trap"')
            forged = forged.replace('["builtins.ValueError"', '["row_trap.Boom","builtins.ValueError"')
            connection.execute("UPDATE events SET body = ? WHERE seq = ?", (forged, seq))
        assert [1 for (body,) in connection.execute(BODY) if "row_trap.Boom" in body]
    GATE.append("open")
    assert asyncio.run(go_on(flow_id)) == "row_trap: boom"
    assert "row_trap" not in sys.modules
    assert not (tmp_path / "imported").exists()


APP = """
import multiprocessing, sys, msgspec
from redrive.flows.errors.stored_error import StoredError, rebuild_error, store_error

class Outer:
    class Boom(ValueError):
        pass

def run(command, path):
    if command == "store":
        stored = store_error(Outer.Boom("x"))
        open(path, "wb").write(msgspec.json.encode(stored))
    else:
        rebuilt = rebuild_error(msgspec.json.decode(open(path, "rb").read(), type=StoredError))
        assert type(rebuilt) is Outer.Boom, type(rebuilt).__mro__
        del Outer.Boom
        assert type(rebuild_error(store_error(rebuilt))) is not type(rebuilt)
    loaded = [one for one in {*sys.modules.values()} if getattr(one, "__file__", "") == __file__]
    assert len(loaded) == 1, loaded

if __name__ == "__main__":
    how, *given = sys.argv[1:]
    if how == "spawn":
        child = multiprocessing.get_context("spawn").Process(target=run, args=given)
        child.start()
        child.join()
        sys.exit(child.exitcode)
    run(*given)
"""


@pytest.mark.parametrize(
    ("as_program", "as_module"),
    [(["app.py"], "app"), (["-m", "shop.app"], "shop.app")],
    ids=["python app.py", "python -m shop.app"],
)
def test_a_class_of_the_started_program_is_the_one_of_its_module(
    tmp_path: Path, as_program: list[str], as_module: str
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "app.py").write_text(APP)
    (tmp_path / "app.py").write_text(APP)
    importing = ["-c", f"import sys, {as_module}; {as_module}.run(*sys.argv[1:])"]
    running, spawning = [*as_program, "run"], [*as_program, "spawn"]
    for store, read in ((running, importing), (importing, running), (running, spawning), (spawning, running)):
        for command, how in (("store", store), ("read", read)):
            finished = subprocess.run(  # noqa: S603 - our own script
                [sys.executable, *how, command, "stored.json"], cwd=tmp_path, capture_output=True, text=True, timeout=60
            )
            assert finished.returncode == 0, finished.stderr
        assert json.loads((tmp_path / "stored.json").read_text())["type"] == f"{as_module}.Outer.Boom"
