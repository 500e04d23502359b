"""A million steps are a second or two of work, whatever a script does, and what it makes and holds is bounded."""

import asyncio
import sys
import time
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest
from tests.flows.scripts.driving import NONE, drive

from redrive.errors import ScriptLimitError
from redrive.expressions import limits
from redrive.expressions.limits import MOST_STEPS, Budget, OutOfSteps, Scope, TooLarge, TooMuch, size_of
from redrive.expressions.operations import ARITHMETIC, IN_PLACE
from redrive.flows.scripts import compiler
from redrive.flows.scripts.error_values import catches
from redrive.flows.scripts.interpreter import Program
from redrive.flows.scripts.parsing import parse
from redrive.worker.maintenance import loop_watchdog

SHUFFLED = [number * 7919 % 99_991 for number in range(99_991)]


def replaced_now(run: Any) -> Any:
    return mock.patch.dict(compiler._RUNTIME, {"function now": run})


def turns(source: str, inputs: Mapping[str, Any] = NONE, most: int = MOST_STEPS) -> int:
    """How often a script that goes on and on comes by its `now()`."""
    count = 0

    def counted(scope: Scope) -> int:
        nonlocal count
        count += 1
        return 0

    with replaced_now(counted), mock.patch.object(limits, "MOST_STEPS", most):
        # Compiled anew, with the one that counts.
        program = Program(parse(source), "order")
        with pytest.raises(OutOfSteps):
            asyncio.run(program.run("main", inputs))
    return count


@pytest.mark.parametrize(
    ("line", "before", "most"),
    [
        ("y = float(t)", "t = '1' * 1000000", 20),
        ("y = sorted(x)", "pass", 20),
        ("y = strip(t)", "t = ' ' * 1000000", 100),
        ("y = [t] * 500 == [u] * 500", "t = 'a' * 9000\n    u = 'a' * 8999 + 'b'", 60),
        ("y = t in [u] * 100", "t = 'a' * 99999\n    u = 'a' * 99998 + 'b'", 60),
        ("y = d[u]", "t = 'a' * 999999\n    u = 'a' * 999999\n    d = {t: 1}", 500),
        ("d[u] = 1", "t = 'a' * 999999\n    u = 'a' * 999999\n    d = {t: 1}", 500),
        ("y = {t: 1, u: 2}", "t = 'a' * 999999\n    u = 'a' * 999999", 500),
        ("y = dict([[t, 1], [u, 2]])", "t = 'a' * 999999\n    u = 'a' * 999999", 500),
        ("y = dict([{t: 1, 1: 1}, {u: 2, 1: 1}])", "t = 'a' * 999999\n    u = 'a' * 999999", 500),
        ("y = t[::-1]", "t = 'a' * 999999", 500),
        ("y = str([1e300] * 9000)", "pass", 60),
    ],
)
def test_what_takes_long_is_done_a_few_times_only(line: str, before: str, most: int) -> None:
    source = f"fn main(x):\n    {before}\n    while True:\n        {line}\n        now()\n"
    assert 0 < turns(source, {"x": SHUFFLED}, most=500_000) <= most


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        ("1 // 0", 30_000),
        ("sorted('b' * 200000)", 3000),
        ("f(t)", 30),
        ("str([t] * 1000)", 30),
        ("split(t, 'a')", 30),
        ("sum([2 ** 1020] * 99999)", 30),
        ("message(t)", 30),
    ],
)
def test_what_is_refused_counts_too(expression: str, most: int) -> None:
    source = f"""
fn main():
    t = 'a' * 999999
    while True:
        try:
            y = {expression}
        except:
            now()
fn f(t):
    sleep t
fn message(t):
    try:
        raise KeyError(t)
    except KeyError as error:
        return error.message
"""
    assert 0 < turns(source, most=300_000) <= most


LONG = " + ".join(["1"] * 2000)
NAMES = ", ".join(f"a{number}" for number in range(6000))
HANDLERS = "".join(
    f"        except {number}:\n            pass\n" for number in [*NAMES.split(", ")[:600], "Exception"]
)
BRANCHES = "            f(1)\n" * 150


@pytest.mark.parametrize(
    "source",
    [
        f"fn main():\n    while True:\n        x = {LONG}\n        now()\n",
        f"fn main():\n    while {LONG}:\n        now()\n",
        f"fn main():\n    while True:\n        f()\nfn f(x={LONG}):\n    now()\n",
        f"fn main():\n    while True:\n        if now():\n            pass\n        elif {LONG}:\n            pass\n",
        "fn main():\n    while True:\n        now()\n        x = spread range(400):n -> f(n)\nfn f(n):\n    pass\n",
        f"fn main():\n    for {NAMES} in [list(range(6000))] * 9000:\n        now()\n    while True:\n        pass\n",
        f"fn main():\n    while True:\n        try:\n            x = now() // 0\n{HANDLERS}",
        f"fn main():\n    while True:\n        now()\n        parallel:\n{BRANCHES}fn f(n):\n    pass\n",
    ],
    ids=["expression", "test", "default", "elif", "spread", "unpacking", "handlers", "parallel"],
)
def test_a_long_line_is_more_than_one_step(source: str) -> None:
    assert 0 < turns(source, most=20_000) <= 100


def test_keys_that_python_would_look_for_long_are_refused() -> None:
    """Multiples of this number all stand at one place of a dict."""
    same_place = 2**61 - 1
    for line in (f"x = {{{same_place}: 1}}", f"x = {{}}\n    x[{same_place}] = 1", f"x = dict([[{same_place}, 1]])"):
        error = drive(f"fn main():\n    {line}\n").error
        assert isinstance(error, TooLarge), line
        assert "the key of a dict would have more than 60 bits" in str(error)
    assert drive("x = {1152921504606846975: 1, -3: 2}\nreturn x[-3]\n").result == 2


@pytest.mark.parametrize("value", ["[t] * 20", "{'a': [t] * 20}"])
def test_values_with_too_many_characters_do_not_leave_a_script(value: str) -> None:
    for use in (f"return {value}", f"@rd.work(n={value})"):
        error = drive(f"fn main():\n    t = 'a' * 1000000\n    {use}\n").error
        assert isinstance(error, TooLarge)
        assert "script order, line 3: " in str(error)


def test_whoever_asks_where_a_script_is_gets_its_line() -> None:
    said: list[str] = []

    def ask(scope: Scope) -> None:
        said.append(str(loop_watchdog.holder_of(sys._getframe(1))))

    with replaced_now(ask):
        drive("fn main():\n    if True:\n        deeper()\n    @rd.work(n=1)\n    now()\nfn deeper():\n    now()\n")
    assert said == ["at script order, line 7", "at script order, line 5"]


def test_the_names_of_a_handler_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: a failure is compared with none of them one by one."""
    names = ", ".join(f"E{number}" for number in range(3000))
    tried = f"        try:\n            x = now() // 0\n        except ({names}, Exception):\n            pass\n"
    source = f"fn main():\n    while True:\n{tried}"
    seen: list[Any] = []

    def seeing(known: Any, error: Exception) -> bool:
        seen.append(known)
        return catches(known, error)

    monkeypatch.setattr("redrive.flows.scripts.execution.catches", seeing)
    turns(source, most=200)
    assert all(one is seen[0] for one in seen)
    assert isinstance(seen[0], frozenset)


@pytest.mark.parametrize("base", [1, -1, 0, True, False])
@pytest.mark.parametrize("exponent", [1, 2, 2**999, 2**999 + 1, True])
def test_powers_of_one_and_zero_are_known_without_work(base: int, exponent: int) -> None:
    small = 2 - exponent % 2
    for table in (ARITHMETIC, IN_PLACE):
        result = table["**"](Scope({}, Budget()), base, exponent)
        assert result == base**small
        assert type(result) is int


def test_powers_with_long_exponents_take_no_time() -> None:
    """Python itself needs a tenth of a millisecond for each."""
    source = "fn main():\n    big = 2 ** 999\n    for i in range(9000):\n        x = 1 ** big\n    return x\n"
    begun = time.process_time()
    assert drive(source).result == 1
    assert time.process_time() - begun < 0.5


def test_a_long_text_may_be_built_line_by_line() -> None:
    source = 'text = ""\nfor i in range(5000):\n    text += "order number " + str(i) + "\\n"\nreturn len(text)\n'
    with mock.patch.object(limits, "MOST_STEPS", MOST_STEPS // 2):
        assert drive(source).result == 88_890


def test_who_is_out_of_steps_learns_where_and_what_to_do() -> None:
    error = drive("fn main():\n    t = 'a' * 999999\n    while True:\n        x = t + 'b'\n").error
    assert isinstance(error, OutOfSteps)
    assert str(error).startswith("script order, line ")
    assert 'build long texts with join("", parts)' in str(error)
    assert "work with large data in an action" in str(error)


@pytest.mark.parametrize("use", ["x = range(0, 2 ** 999, 2 ** 500)", "x = range(9)[::2 ** 999]", "x = range(2 ** 60)"])
def test_ranges_of_large_numbers_are_refused(use: str) -> None:
    error = drive(f"fn main():\n    {use}\n").error
    assert isinstance(error, TooLarge)
    assert "a whole number of a range would have more than 60 bits" in str(error)


def test_errors_are_as_large_as_what_they_hold() -> None:
    source = """
fn main():
    try:
        try:
            raise ValueError("x" * 1000000)
        except ValueError as inner:
            raise ValueError(inner)
    except ValueError as error:
        return str([error] * 3000)
"""
    error = drive(source).error
    assert isinstance(error, TooLarge)
    held = ValueError(ValueError(["x" * 5000]))
    assert size_of([held, held]).characters == size_of(held).characters * 2 == 10_000


@pytest.mark.parametrize(
    "line", ['kept += ["a" * 999000 + str(i)]', "kept += [list(range(99000))]", "kept += [failed(i)]"]
)
def test_what_a_script_holds_is_bounded_over_all_its_waits(line: str) -> None:
    source = f"""
fn main():
    kept = []
    for i in range(1500):
        {line}
        if i % 5 == 0:
            @rd.note(what=1)
    return "all"
fn failed(i):
    try:
        raise ValueError("a" * 999000 + str(i))
    except ValueError as error:
        return error
"""
    driven = drive(source)
    assert isinstance(driven.error, TooMuch)
    assert str(driven.error).startswith("script order, line ")
    assert len(driven.calls) < 30


def test_what_a_script_dropped_does_not_count() -> None:
    source = 'for i in range(300):\n    x = "a" * 999000 + str(i)\n    d = {}\n    @rd.note(what=1)\nreturn i\n'
    assert drive(source).result == 299


def test_a_lack_of_memory_fails_the_flow_in_one_line() -> None:
    def lacking(scope: Scope) -> None:
        raise MemoryError

    with replaced_now(lacking):
        error = drive("# Without memory.\nfn main():\n    pass\n    now()\n").error
    assert isinstance(error, ScriptLimitError)
    assert str(error).startswith("script order, line 4: no memory was left")


def test_each_call_of_a_spread_sees_the_variables_around_it() -> None:
    source = """
fn main():
    a = 1
    n = 5
    x = spread [10, 20]:n -> f(n + a, b=[n])
    return x + [n]
fn f(x, b=0):
    return [x, b]
"""
    assert drive(source).result == [[11, [10]], [21, [20]], 5]
