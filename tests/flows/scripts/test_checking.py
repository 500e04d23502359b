"""The checker finds what would fail or never happen, and stays quiet about what is right."""

from typing import Any

import pytest
from hypothesis import given
from tests.flows.scripts.generated import scripts
from tests.flows.scripts.programs import programs

from redrive import action
from redrive.flows.action import known_actions
from redrive.flows.scripts.checking import WARNINGS, check, check_text
from redrive.flows.scripts.errors import Problem
from redrive.flows.scripts.parsing import parse
from redrive.notation.linting.linter import RULES


@action(name="check.charge")
async def charge(order: str, cents: int = 0) -> None:
    pass


@action(name="check.anything")
async def anything(first: int, **more: int) -> None:
    pass


def found(text: str) -> list[tuple[str, int, int]]:
    return [(one.rule, one.line, one.column) for one in problems(text)]


def problems(text: str) -> list[Problem]:
    return check(parse(text, "order.rd"), known_actions())


def message(text: str) -> str:
    (only,) = problems(text)
    return only.message


RIGHT = """
fn pay(order, cents=5):
    try:
        @check.charge(order=order, cents=cents) [ConnectionError -> retry: 3, backoff: 1s, jitter: full] [deadline: 1m]
    except TimeoutError as error:
        return error.message + error.type + str(error.attempts)
    except OSError:
        raise
    except:
        raise Permanent("no")
    return "paid"
fn main(orders, limit=3):
    done = []
    tries = 0
    while True:
        tries += 1
        if tries > limit:
            break
        for key, value in items({"a": 1}):
            if key is None or value is True:
                continue
            latest = [key, value]
        done += [latest]
    while len(done) < 3:
        pass
    while done[0] == 1:
        other = done
        other[0] = 2
    while True:
        sleep 1h
        pay(orders[0], cents=1)
    parallel:
        a = pay(order="x")
        @check.anything(first=1, second=2)
    b = spread orders:one -> pay(one)
    return [a, b, range(3), sorted([1], reverse=True)]
"""


def test_a_script_that_is_right_has_no_problems_but_what_follows_its_endless_loop() -> None:
    assert found(RIGHT) == [("unreachable-code", 32, 5)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@check.chrge(order=1)", "no action is named 'check.chrge'; did you mean 'check.charge'?"),
        ("@check.charge(ordr=1)", "action check.charge: no argument is named 'ordr'; did you mean 'order'?"),
        ("@check.charge(cents=1)", "action check.charge: the call lacks order"),
        ("@check.anything(second=2)", "action check.anything: the call lacks first"),
        ("x = lenn([])", "no function is named 'lenn'; did you mean 'len'?"),
        ("x = len([], [])", "len: too many positional arguments; write len(x)"),
        ("x = sorted([], revers=1)", "sorted has no argument 'revers'; did you mean 'reverse'?"),
        ("total = 1\nx = totl", "nothing is named 'totl'; did you mean 'total'?"),
        ("x = len", "'len' is a function; write len(x)"),
        ("x = x + 1", "'x' has no value here yet, on any path; assign it first"),
        ("x += 1", "'x' has no value here yet, on any path; assign it first"),
        ("len = 1\nx = len([])", "'len' is a variable here and cannot be called; rename the variable"),
        ("x = {}\ny = x.total", 'only an error caught with `as` has attributes; for a dict write x["total"]'),
        ("x = [1]\nif x is x:\n    pass", "`is` is for None, True and False; compare other values with =="),
        ("raise ValueEror('x')", "raise cannot name 'ValueEror'; did you mean 'ValueError'?"),
        (
            "raise NetworkDown('x')",
            "raise cannot name 'NetworkDown'; use Permanent, or one of Python's errors,",
        ),
        ('sleep "5 minutes"', "'5 minutes' is not a duration: write seconds"),
        ("while True:\n    pass", "this loop never ends, and it never waits; add a break, an action or a sleep"),
        ("x = 1\nwhile x < 3:\n    y = x", "nothing in this loop changes what it tests, and it never waits;"),
        ("while True:\n    for x in [1]:\n        break", "this loop never ends, and it never waits;"),
        ("return 1\nx = 2", "this is never reached; remove it, or what leaves the block above it"),
        ("if True:\n    return 1\nelse:\n    raise ValueError\nx = 2", "this is never reached;"),
        ("for x in [1]:\n    continue\n    y = 1", "this is never reached;"),
        ("fn f(a):\n    pass\nfn main():\n    f()", "f lacks a"),
        ("fn f(a):\n    pass\nfn g():\n    pass", "no function is named main; rename"),
        ("fn f(a, b=a):\n    pass", "'a' has no value here yet,"),
        ("x = spread [1]:one -> str(one)\ny = one", "nothing is named 'one';"),
        ("parallel:\n    x = str(1)\n    y = str(x)", "'x' has no value here yet,"),
        (
            "x = 0\nparallel:\n    x = str(1)\n    y = str(x)",
            "'x' is assigned in line 3 of the same 'parallel'; it still has",
        ),
        ("x = true", "nothing is named 'true'; write True"),
        ("x = null", "nothing is named 'null'; write None"),
        ("try:\n    sleep 1\nexcept ValueEror:\n    pass", "except ValueEror: unknown error; did you"),
        (
            "try:\n    sleep 1\nexcept (OSError, Permanant):\n    pass",
            "except Permanant: unknown error;",
        ),
        (
            "@check.charge(order=1) [NetworkEror -> retry: 1, backoff: 1s, jitter: full] [deadline: 1h]",
            "policy: NetworkEror: unknown error; did you mean 'NetworkError'?",
        ),
        ("try:\n    pass\nexcept OSError as error:\n    pass\nx = str(error)", "'error' has no value here yet,"),
    ],
)
def test_each_problem_says_what_is_wrong_and_what_to_write_instead(text: str, said: str) -> None:
    assert message(text + "\n").startswith(said)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            "Exception",
            "ValueError",
            "except ValueError is never reached: except Exception in line 3 catches it",
        ),
        ("OSError", "ConnectionError", "except ConnectionError is never reached: except OSError in line 3"),
        ("IOError", "TimeoutError", "except TimeoutError is never reached: except OSError in line 3"),
        (
            "TimeoutError",
            "AttemptTimeoutError",
            "except AttemptTimeoutError is never reached: except TimeoutError in line 3",
        ),
        ("NotFound", "(shop.NotFound)", "except shop.NotFound is never reached: except NotFound in line 3"),
        ("Exception", "", "this except is never reached: except Exception in line 3"),
        ("ValueError", "KeyError", None),
        ("ConnectionError", "OSError", None),
        ("shop.NotFound", "NotFound", None),
    ],
)
def test_a_handler_after_one_that_catches_the_same_is_never_reached(first: str, second: str, said: str | None) -> None:
    text = f"try:\n    sleep 1\nexcept {first}:\n    pass\nexcept {second}:\n    pass\n".replace("except :", "except:")
    assert [one.message for one in problems(text) if not one.message.startswith(said or "?")] == []
    assert len(problems(text)) == (said is not None)


@pytest.mark.parametrize(
    "text",
    [
        "fn main(items):\n    i = 0\n    while True:\n        i += items[i]\n",
        "fn main(n):\n    try:\n        while True:\n            n = 1 / n\n    except TypeError:\n        pass\n",
        "fn check(n):\n    raise OSError\nfn main(n):\n    while True:\n        n += 1\n        check(n)\n",
        "fn main(n):\n    found = {}\n    while not found:\n        found['at'] = n\n",
        "fn fill(box):\n    box['x'] = 1\nfn main():\n    box = {}\n    while not box:\n        fill(box)\n",
        "fn pause():\n    sleep 1\nfn main():\n    while True:\n        pause()\n",
    ],
    ids=["missing element", "error", "error in a function", "element", "element in a function", "wait"],
)
def test_a_loop_that_may_end_in_other_ways_is_not_called_endless(text: str) -> None:
    assert found(text) == []


def test_a_loop_that_cannot_reach_the_handlers_is_endless() -> None:
    loop = "    while True:\n        pass\n"
    assert "endless-loop" in [rule for rule, _, _ in found(f"try:\n    sleep 1\nexcept OSError:\n{loop}")]
    assert "endless-loop" in [rule for rule, _, _ in found(f"try:\n{loop}finally:\n    sleep 1\n")]


@pytest.mark.parametrize(
    "text",
    [
        "last = None\ntry:\n    sleep 1\nexcept OSError as error:\n    last = error\nreturn last.message\n",
        "fn told(error):\n    return error.type + error.message\n"
        "fn main():\n    try:\n        sleep 1\n    except OSError as error:\n        return told(error)\n",
    ],
    ids=["kept", "handed on"],
)
def test_a_caught_error_may_be_kept_or_handed_to_a_function(text: str) -> None:
    assert found(text) == []


def test_policies_are_linted_where_they_stand() -> None:
    text = "x = 1\nx = @check.charge(order='a') [retry: 3]\ny = @check.charge(order='a') [timeout: 1m]\n"
    assert found(text) == [("RD001", 2, 30), ("RD011", 2, 30)]
    assert [one.severity for one in problems(text)] == ["warning", "warning"]


def test_a_parallel_may_use_what_was_there_before_it() -> None:
    text = "x = 1\nz = 2\nparallel:\n    x = str(x)\n    y = str(z)\nparallel:\n    z = str(y)\n    str(x)\n"
    assert found(text) == []


@pytest.mark.parametrize(
    "names", ["ConnectError", "(HTTPError, ReadTimeout)", "shop.ValueEror", "CardRefused", "IOError", "NotFoundError"]
)
def test_errors_of_programs_have_any_name(names: str) -> None:
    assert found(f"try:\n    sleep 1\nexcept {names}:\n    pass\n") == []


def test_a_policy_that_makes_no_sense_hides_nothing_else() -> None:
    text = "@check.charge(ordr=1) [retry: 3, backof: 1s]\nx = 1 if 2 else 0777\nreturn reciept\n"
    said = check_text(text, "order.rd", known_actions())
    assert [(one.line, one.column) for one in said] == [(1, 15), (1, 34), (2, 17), (3, 8)]
    # What a line without sense would have assigned is not known.
    assert len(check_text("x = = 1\nreturn x\n", "order.rd")) == 1


def test_all_problems_are_told_in_the_order_of_the_text() -> None:
    text = "@check.charge(ordr=1, cent=2)\nx = a + b\nreturn x\ny = c\n"
    rules = ["action-arguments", "action-arguments", "unknown-name", "unknown-name", "unreachable-code", "unknown-name"]
    assert [rule for rule, _, _ in found(text)] == rules
    assert [line for _, line, _ in found(text)] == [1, 1, 2, 2, 4, 4]
    first = problems(text)[0]
    assert str(first).splitlines()[1:] == ["    @check.charge(ordr=1, cent=2)", "                  ^"]


def test_without_actions_their_calls_are_not_looked_at() -> None:
    assert check(parse("@nobody.knows(this=1)\n")) == []


@given(scripts())
def test_whatever_can_be_read_can_be_checked(script: Any) -> None:
    for problem in check(script, known_actions()):
        assert problem.message
        assert problem.rule
        assert problem.severity == "error" or problem.rule in WARNINGS or problem.rule in RULES


@given(programs())
def test_programs_that_assign_before_they_use_are_not_blamed(text: str) -> None:
    """All names of these programs have values when they are used, save one."""
    rules = {(one.rule, "'t'" in one.message) for one in check(parse(text))}
    blamed = {rule for rule, about_t in rules if not about_t}
    assert blamed <= {"unreachable-code", "unreachable-handler", "RD001"}, text
