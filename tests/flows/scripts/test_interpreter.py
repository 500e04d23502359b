"""Scripts mean what Python means, stay within bounds, and say where they failed."""

import sys
from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, given
from tests.flows.scripts.driving import ACTIONS, Driven, drive, work
from tests.flows.scripts.programs import programs, run_python

from redrive.errors import ScriptLimitError
from redrive.expressions import limits
from redrive.expressions.limits import OutOfSteps, TooLarge
from redrive.flows.commands import EndFlow, ScheduleItem
from redrive.flows.script_driver import script_driver
from redrive.flows.scripts import nodes
from redrive.flows.scripts.action_calls import bracket_policy
from redrive.flows.scripts.parsing import parse
from redrive.flows.scripts.script import Script
from redrive.policies.policy import Policy


def main(*lines: str, **inputs: Any) -> Any:
    return driven(*lines, **inputs).result


def driven(*lines: str, **inputs: Any) -> Driven:
    """Lines of the body of main."""
    head = f"fn main({', '.join(inputs)}):"
    return drive("\n".join([head, *("    " + line for line in lines), ""]), ACTIONS, inputs)


@given(programs())
def test_a_script_does_what_its_python_translation_does(text: str) -> None:
    too_large: list[TooLarge] = []
    original = TooLarge.__init__

    def noted(self: TooLarge, *args: Any) -> None:
        too_large.append(self)
        original(self, *args)

    with mock.patch.object(TooLarge, "__init__", noted):
        found = outcome(lambda: drive(text, ACTIONS, {"n": 3}).result)
    # Python would go on, as long as it can.
    assume(not too_large)
    assert found == outcome(lambda: run_python(text, ACTIONS, 3)), text


def outcome(run: Any) -> tuple[str, Any]:
    try:
        return "result", run()
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    "expression",
    [
        "-7 // 2",
        "-7 % 3",
        "7 / 2",
        "-2 ** 2",
        "2 ** -1",
        "2 ** 3 ** 2",
        "1 < 2 < 3 == 3",
        "1 < 3 < 2",
        "not 0 and 1",
        "0 or '' or []",
        "1 and 2",
        "[1, 2, 3][-1]",
        "'abcdef'[1:5:2]",
        "[1, 2, 3][::-1]",
        "{'a': 1}['a']",
        "'b' in 'abc'",
        "2 not in [1, 3]",
        "None is None",
        "1 if [] else 2",
        "round(2.5)",
        "round(2.675, 2)",
        "round(number=2.5)",
        "int('12') + float('1.5')",
        "sorted([3, 1, 2], reverse=True)",
        "min(3, 1) + max([4, 9])",
        "str([1, 'a', None, True, 1.0, {'k': []}])",
        "list(range(10, 0, -3))",
        "dict([['a', 1]])",
        "abs(-3) + len('abc') + sum([1, 2])",
        "True + True",
        "0.1 + 0.2",
        "[1] * 3 + [2]",
        "0x1f + 0b11 + 1_000",
        "bool([]) or bool('x')",
    ],
)
def test_expressions_give_what_they_give_in_python(expression: str) -> None:
    assert main(f"return {expression}") == eval(expression)  # noqa: S307 - our own text, to compare with


def test_builtins_that_python_spells_otherwise() -> None:
    assert main(
        'return [upper("ab"), lower("AB"), strip(" a "), split("a b"), split("a,b", ","), join("-", ["a", "b"])]'
    ) == [
        *("AB", "ab", "a", ["a", "b"], ["a", "b"], "a-b"),
    ]
    assert main('d = {"a": 1}', "return [keys(d), values(d), items(d)]") == [["a"], [1], [["a", 1]]]


def test_the_flow_gives_its_own_time_chance_and_id() -> None:
    lines = ["before = now()", "sleep 90s", "return [now() - before, random(), uuid(), flow_id()]"]
    first, again = driven(*lines), driven(*lines)
    assert first.result == again.result
    waited, chance, made, flow = first.result
    assert (waited, flow) == (90, "flow-1")
    assert 0 <= chance < 1
    assert len(made) == 36


def test_return_break_and_continue_go_through_finally() -> None:
    text = """
fn over():
    try:
        return 1
    finally:
        return 2
fn kept():
    x = [0]
    try:
        return x
    finally:
        x[0] = 5
        while True:
            try:
                return 9
            finally:
                break
fn swallowed():
    for n in [1, 2]:
        try:
            return n
        finally:
            break
fn main():
    seen = []
    for n in range(4):
        try:
            if n == 1:
                continue
            if n == 3:
                break
            seen += [n]
        finally:
            seen += ["f" + str(n)]
    return [over(), kept(), swallowed(), seen]
"""
    assert drive(text).result == [2, [5], None, [0, "f0", "f1", 2, "f2", "f3"]]


def test_lists_are_shared_and_changed_in_place_as_in_python() -> None:
    lines = ["x = [1]", "y = x", "y += [2]", "y[0] = 5", "z = y", "z *= 2", "x = x + [9]"]
    assert main(*lines, "return [x, y, z]") == [[5, 2, 5, 2, 9], [5, 2, 5, 2], [5, 2, 5, 2]]


def test_names_belong_to_their_function_and_an_error_to_its_handler() -> None:
    text = """
fn other(x, y=[]):
    y += [x]
    return y
fn main():
    x = 1
    a = other(2)
    b = other(3)
    try:
        raise KeyError("k")
    except LookupError as error:
        said = error.type + ": " + error.message
    try:
        return error.message
    except NameError as e:
        return [x, a, b, said, str(e)]
"""
    gone = "cannot access local variable 'error' where it is not associated with a value"
    # A default is made anew for each call.
    assert drive(text).result == [1, [2], [3], "KeyError: 'k'", gone]


class NetworkError(Exception):
    pass


class SlowNetwork(NetworkError):
    pass


def test_failures_are_caught_by_name_by_base_class_and_by_qualified_name() -> None:
    def fail(n: int) -> None:
        raise SlowNetwork("late")

    for types in ("NetworkError", "SlowNetwork", f"{__name__}.NetworkError", "(KeyError, Exception)"):
        found = drive(f"try:\n    @rd.work(n=1)\nexcept {types} as error:\n    return error.type\n", {"rd.work": fail})
        assert found.result == "SlowNetwork", types
    found = drive("try:\n    @rd.work(n=1)\nexcept (KeyError, OSError):\n    return 1\n", {"rd.work": fail})
    assert isinstance(found.error, SlowNetwork)


def test_a_bare_raise_raises_what_was_caught() -> None:
    inner = ["    try:", "        x = 1 / 0", "    except ArithmeticError:", "        pass"]
    error = driven("try:", "    @rd.work(n=4)", "except LookupError:", *inner, "    raise").error
    assert (type(error), str(error)) == (LookupError, "no 4")


# Where it failed


@pytest.mark.parametrize(
    ("lines", "kind", "place"),
    [
        (["x = 1", "y = x + 'a'"], TypeError, 3),
        (["if False:", "    pass", "elif 1 / 0:", "    pass"], ZeroDivisionError, 4),
        (["for x in [1]:", "    y = [][x]"], IndexError, 3),
        (["parallel:", "    @rd.work(n=1)", "    @rd.work(n=4)"], LookupError, 4),
        (["x = spread [1, 4]:n -> @rd.work(n=n)"], LookupError, 2),
        (["raise Permanent('no')"], Exception, 2),
        (["x = {}", "return x.message"], AttributeError, 3),
        (["return lenn([])"], NameError, 2),
        (["return 1 is 2"], TypeError, 2),
    ],
)
def test_an_error_says_where_in_the_script_it_came_up(lines: list[str], kind: type[Exception], place: int) -> None:
    error = driven(*lines).error
    assert isinstance(error, kind)
    assert error.__notes__ == [f"script order, line {place}"]


def test_an_error_in_a_function_names_the_innermost_line() -> None:
    error = drive("fn inner(x):\n    return 1 / x\nfn main():\n    y = 1\n    return inner(0) + y\n").error
    assert error.__notes__ == ["script order, line 2"]
    error = drive("fn inner(\n    x=1 / 0,\n):\n    return x\nfn main():\n    return inner()\n").error
    assert error.__notes__ == ["script order, line 2"]


def test_wrong_arguments_say_what_was_probably_meant() -> None:
    text = "fn pay(user, cents=1):\n    return user\nfn main():\n    return {}\n"
    for call, message in (
        ("pay(usr=1)", "pay has no parameter 'usr'; did you mean 'user'?"),
        ("pay(1, 2, 3)", "pay takes user, cents; this call has 3 arguments"),
        ("pay()", "pay lacks user"),
        ("pay(1, user=2)", "'user' is given twice, by its position and by its name"),
        ("sorted([1], revers=True)", "sorted has no argument 'revers'; did you mean 'reverse'?"),
        ("payy(1)", "no function is named 'payy'; did you mean 'pay'?"),
    ):
        assert str(drive(text.format(call)).error) == message


# All at once


def test_parallel_ends_the_others_when_one_fails_and_its_error_is_not_a_group() -> None:
    lines = [
        "a = 0",
        "try:",
        "    parallel:",
        "        a = @rd.work(n=1)",
        "        @rd.work(n=4)",
        "        b = @rd.work(n=3)",
    ]
    found = driven(*lines, "except LookupError as error:", "    return [a, error.message]")
    assert found.result == [1, "no 4"]
    assert found.cancelled == 1
    assert [arguments for _, arguments in found.calls] == [{"n": 1}, {"n": 4}, {"n": 3}]


@pytest.mark.parametrize("call", ["str(11)", "twice(n='1')", "@rd.work(n=1)"])
def test_a_call_in_parallel_sees_variables_as_they_were_before(call: str) -> None:
    text = f"""
fn twice(n):
    return n + n
fn main():
    a = 5
    parallel:
        a = {call}
        b = twice(n=a)
        c = @rd.work(n=a)
    return [str(a)[0], b, c]
"""
    assert drive(text, ACTIONS).result == ["1", 10, 5]


def test_parallel_runs_functions_too_and_spread_keeps_the_order() -> None:
    text = """
fn twice(n):
    one = @rd.work(n=n)
    return one + @rd.work(n=n)
fn main():
    parallel:
        a = twice(1)
        b = twice(2)
    c = spread [3, 1, 2]:n -> @rd.work(n=n * 10)
    d = spread {"k": 1}:n -> twice(n=n)
    e = spread range(2):n -> str(n)
    return [a, b, c, d, e, spread_is_alone()]
fn spread_is_alone():
    n = "mine"
    none = spread []:n -> @rd.work(n=n)
    return [n, none]
"""
    found = drive(text, ACTIONS)
    assert found.result == [2, 4, [30, 10, 20], ["kk"], ["0", "1"], ["mine", []]]
    # Both functions had begun before either went on.
    assert [arguments["n"] for _, arguments in found.calls][:4] == [1, 2, 1, 2]


def test_sleep_takes_seconds_durations_and_texts() -> None:
    found = driven("sleep 5m", "x = 1.5", "sleep x", 'sleep "1h30m"', "sleep 0", "sleep 2 * 1m")
    assert found.sleeps == [300, 1.5, 5400, 120]
    assert "is not a duration" in str(driven("sleep 0 - 1").error)
    assert "at most ten years" in str(driven("sleep 1e12").error)


# Bounds


@pytest.mark.parametrize(
    "expression",
    [
        "'a' * 10 ** 9",
        "[0] * 10 ** 9",
        "2 ** 10 ** 9",
        "(2 ** 9000) * (2 ** 9000)",
        "list(range(10 ** 6))",
        "range(10 ** 30)",
        "'a' * 999999 + 'bb'",
        "join('a' * 1000, ['b'] * 2000)",
        "round(5, 0 - 10 ** 9)",
        "split('a ' * 200000)",
        "(7 ** 3000) ** 2",
    ],
)
def test_what_would_be_too_large_is_refused_before_it_is_made(expression: str) -> None:
    error = driven(f"return {expression}").error
    assert isinstance(error, ScriptLimitError)
    assert "script order, line 2: " in str(error)


@pytest.mark.parametrize("use", ["str(x)", "x == y", "x in [y]", "@rd.work(n=x)", "x"])
def test_lists_that_hold_one_another_many_times_are_not_unfolded(use: str) -> None:
    grow = ["x = [1]", "y = [1]", "for n in range(60):", "    x = [x, x]", "    y = [y, y]"]
    assert isinstance(driven(*grow, f"return {use}").error, ScriptLimitError)


def test_a_loop_that_waits_for_nothing_is_stopped_whatever_catches_it() -> None:
    lines = ["n = 0", "while True:", "    try:", "        n = n + 1", "    except:", "        pass"]
    with mock.patch.object(limits, "MOST_STEPS", 50_000):
        error = driven(*lines).error
    assert isinstance(error, OutOfSteps)
    assert str(error).startswith("script order, line ")
    assert "50,000 steps without an action or a sleep" in str(error)


def test_steps_are_counted_anew_after_each_wait() -> None:
    lines = ["for n in range(100):", "    for m in range(10):", "        pass"]
    with mock.patch.object(limits, "MOST_STEPS", 50):
        assert driven(*lines, "    @rd.work(n=1)").result is None
        assert driven(*lines, "    sleep 1").result is None
        assert isinstance(driven(*lines).error, OutOfSteps)
        # Which lets no time pass.
        assert isinstance(driven(*lines, "    sleep 0").error, OutOfSteps)


def test_work_on_large_values_costs_steps_too() -> None:
    lines = ["x = 'a' * 900000", "while True:", "    y = x + 'b'"]
    with mock.patch.object(limits, "MOST_STEPS", 100_000):
        assert isinstance(driven(*lines).error, OutOfSteps)


def test_functions_call_each_other_to_a_depth_that_does_not_depend_on_pythons_stack() -> None:
    text = (
        "fn down(n):\n    if n == 0:\n        return 0\n    return 1 + down(n - 1)\nfn main(n):\n    return down(n)\n"
    )
    assert drive(text, inputs={"n": 90}).result == 90
    assert "more than 100 calls" in str(drive(text, inputs={"n": 100}).error)
    nested = "".join("    " * depth + "if True:\n" for depth in range(1, 40)) + "    " * 40 + "return 1 + down(n - 1)\n"
    text = f"fn down(n):\n    if n == 0:\n        return 0\n{nested}fn main():\n    return down(90)\n"
    assert drive(text).result == 90


def test_blocks_nest_more_deeply_than_those_of_python_may() -> None:
    """Python allows 20 loops and `try` inside one another."""
    lines = ["seen = []"]
    for depth in range(20):
        lines += ["    " * 2 * depth + "for n in [1, 2]:", "    " * (2 * depth + 1) + "try:"]
    deep = "    " * 40
    lines += [deep + "seen += [n]", deep + "if n == 2:", deep + "    return seen", deep + "continue"]
    for depth in reversed(range(20)):
        lines += ["    " * (2 * depth + 1) + "finally:", "    " * (2 * depth + 2) + f"seen += [{depth}]"]
    assert driven(*lines).result == [1, 19, 2, *reversed(range(20))]
    tries = ["    " * depth + "try:" for depth in range(45)]
    caught = [4 * depth * " " + line for depth in reversed(range(45)) for line in ("except:", "    raise")]
    assert isinstance(driven(*tries, "    " * 45 + "x = 1 / 0", *caught).error, ZeroDivisionError)


LOOP = "fn main(count):\n    total = 0\n    for n in range(count):\n        total += @rd.work(n=n)\n    return total\n"


def test_each_turn_of_a_long_loop_costs_the_same() -> None:
    """Steps, asks and memory of the last thousand iterations are those of the first."""
    driver = script_driver("loop", "flow-1", Script("loop", LOOP).input_for({"count": 10_000}))
    commands = driver.start(0.0)
    taken: list[int] = []
    blocks: list[int] = []
    lines = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal lines
        lines += 1

    for number in range(1, 10_001):
        assert len(commands) == 1
        assert isinstance(commands[0], ScheduleItem)
        driver.bind_item(commands[0], number)
        watched = number in (200, 5000, 9800)
        lines = 0
        sys.setprofile(count if watched else None)
        commands = driver.completed(number, str(number - 1), 0.0)
        sys.setprofile(None)
        if watched:
            taken.append(lines)
            blocks.append(sys.getallocatedblocks())
    assert isinstance(commands[0], EndFlow)
    assert commands[0].result == str(sum(range(10_000)))
    assert len(set(taken)) == 1
    assert max(blocks) - min(blocks) < 1000


def test_caught_failures_leave_nothing_behind_in_a_long_loop() -> None:
    lines = [
        "for n in range(2000):",
        "    try:",
        "        @rd.work(n=4)",
        "    except LookupError as error:",
        "        pass",
    ]
    blocks: list[int] = []

    def counted(n: int) -> int:
        blocks.append(sys.getallocatedblocks())
        return int(work(n))

    text = "\n".join(["fn main():", *("    " + line for line in lines), ""])
    assert drive(text, {"rd.work": counted}).result is None
    # The calls that were made are noted by the test itself.
    assert (blocks[-1] - blocks[200]) / 1800 < 10


def test_an_error_without_an_action_had_no_attempts() -> None:
    found = driven("try:", "    x = 1 / 0", "except ZeroDivisionError as error:", "    return error.attempts")
    assert found.result == 0


@pytest.mark.parametrize("use", ["return {1: 2}", "@rd.give(n=[{1: 2}])"])
def test_what_leaves_a_script_has_texts_as_keys(use: str) -> None:
    error = driven("x = {1: 2}[1]", use).error
    assert str(error).startswith(
        "a dict has the key 1, which is not a text; what leaves a script has texts as keys: write"
    )
    assert error.__notes__ == ["script order, line 3"]


def test_the_message_of_an_error_is_what_it_was_when_it_was_raised() -> None:
    lines = ["x = [1]", "try:", "    raise ValueError(x)", "except ValueError as error:", "    x[0] = 2"]
    assert driven(*lines, "    return error.message").result == "[1]"


def test_brackets_that_answer_nothing_keep_the_policy_of_the_action_and_its_retries() -> None:
    own = Policy(attempts=7, timeout_growth=1.5)
    (statement,) = parse("@rd.work(n=1) [timeout: 2s]\n").functions["main"].body
    assert isinstance(statement, nodes.ExpressionStatement)
    assert isinstance(statement.value, nodes.ActionCall)
    assert statement.value.policy is not None
    assert bracket_policy(statement.value.policy, own) == own.replace(attempt_timeout=2.0)
