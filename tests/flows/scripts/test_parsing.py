"""What a script says is what its nodes say, and all that is wrong with one is told at once, each with its place."""

import time
from typing import Any

import pytest
from hypothesis import example, given
from tests.flows.scripts.examples import BRACKETS, ORDER
from tests.flows.scripts.generated import scripts
from tests.flows.scripts.printing import print_expression, print_script
from tests.notation.test_round_trips import policies

from redrive.errors import ScriptError
from redrive.expressions.nodes import ListDisplay, Literal, Position
from redrive.expressions.parser import MOST_NESTING
from redrive.flows.scripts import nodes
from redrive.flows.scripts.checking import check_text
from redrive.flows.scripts.errors import MOST_SHOWN
from redrive.flows.scripts.parsing import LONGEST_SCRIPT, MOST_LINES, parse
from redrive.flows.scripts.script import Script
from redrive.notation.meaning import differences, meaning_of
from redrive.notation.read import read_policy
from redrive.notation.write import write_policy
from redrive.policies.backoff import Backoff
from redrive.policies.policy import Policy


def problems_of(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(ScriptError) as raised:
        parse(text, "order.rd")
    return [(one.line, one.column, one.message) for one in raised.value.problems]


def message_of(text: str) -> str:
    (problem,) = problems_of(text)
    return problem[2]


def value_of(text: str) -> Any:
    (statement,) = parse(f"x = {text}").functions["main"].body
    assert isinstance(statement, nodes.Assign)
    return statement.value


@pytest.mark.promise("R1", "R2", "R4")
def test_every_bracket_of_the_document_is_the_policy_it_says() -> None:
    script = parse(BRACKETS)
    calls = [one.value for one in script.functions["main"].body if isinstance(one, nodes.Assign)]
    read = [one.policy for one in calls if isinstance(one, nodes.ActionCall)]
    rules = [[(rule.match.names, rule.retries, rule.backoff) for rule in one.policy.rules] for one in read if one]
    assert rules == [
        [((), 3, Backoff("exponential", 60.0))],
        [(("NetworkError",), 5, Backoff("exponential", 120.0))],
        [(("ValueError", "KeyError"), 3, Backoff("exponential", 30.0))],
        [
            (("RateLimitError",), 10, Backoff("exponential", 60.0)),
            (("NetworkError",), 3, Backoff("exponential", 30.0)),
        ],
        [((), 3, Backoff("exponential", 60.0))],
    ]
    assert [one.policy.attempt_timeout for one in read if one] == [None, None, None, None, 120.0]
    assert repr(parse(print_script(script)).functions) == repr(script.functions)


@given(policies)
@example(Policy())
def test_a_native_policy_in_a_script_loses_nothing(policy: Policy) -> None:
    brackets = " ".join(write_policy(policy, "brackets").split("\n"))
    (statement,) = parse(f"@work() {brackets}").functions["main"].body
    assert isinstance(statement, nodes.ExpressionStatement)
    assert isinstance(statement.value, nodes.ActionCall)
    assert statement.value.policy is not None
    read = statement.value.policy.policy
    assert differences(meaning_of(policy), meaning_of(read)) == []
    assert read == read_policy(brackets).policy


@given(scripts())
def test_what_is_printed_is_read_as_it_was_and_prints_the_same(script: nodes.ScriptTree) -> None:
    printed = print_script(script)
    again = parse(printed)
    assert repr(again.functions) == repr(script.functions)
    assert print_script(again) == printed


def test_a_script_of_every_statement() -> None:
    script = parse(ORDER, "order.rd")
    function = script.functions["main"]
    assert script.entry is function
    assert [type(one).__name__ for one in function.body] == [
        *("Assign", "Assign", "For", "Assign", "Parallel", "Try", "Return"),
    ]
    assert [(one.name, one.default) for one in function.parameters] == [
        ("order", None),
        ("lines", ListDisplay((), at=function.at)),
    ]
    attempt = function.body[5]
    assert isinstance(attempt, nodes.Try)
    assert (attempt.handlers[0].types, attempt.handlers[0].name) == (("NotFound", "ValueError"), "error")
    assert attempt.at == Position(13, 5)
    assert attempt.final[0].at == Position(20, 9)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1 + 2 - 3",
            "-2 ** 2",
            "(-2) ** 2",
            "2 ** -1",
            "2 ** 3 ** 2",
            "a - (b - c)",
            "not a == b",
            "not (a and b) or c",
        ),
        *("a < b <= c", "a not in b", "a is not None", "a if b else c if d else e", "(a if b else c) + 1"),
        *(
            "x[1:]",
            "x[:-1]",
            "x[::2]",
            "x[a:b:c]",
            "x[0][1]",
            "(@f())[0]",
            "@f(a=1)",
            "error.message",
            '{"a": [1]}["a"]',
        ),
    ],
)
def test_expressions_group_as_in_python(text: str) -> None:
    assert print_expression(value_of(text)) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("0", 0),
            ("1_000", 1000),
            ("0xFf", 255),
            ("0b101", 5),
            ("0o17", 15),
            ("1.5", 1.5),
            (".5", 0.5),
            ("1e3", 1000.0),
        ),
        *(
            ('"a\\n\\t\\\\\\""', 'a\n\t\\"'),
            ("'it\\'s'", "it's"),
            ('"\\x41\\101\\u00e9\\U0001F600\\N{BULLET}"', "AAé😀•"),
        ),
        *(("True", True), ("False", False), ("None", None), ('"#no comment"', "#no comment")),
    ],
)
def test_literals_are_those_of_python(text: str, value: Any) -> None:
    read = value_of(text)
    assert isinstance(read, Literal)
    assert (read.value, type(read.value)) == (value, type(value))


def test_a_duration_is_a_number_of_seconds() -> None:
    assert value_of("1h30m") == nodes.Duration("1h30m", 5400.0, at=Position(1, 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("    ", "\t"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n   \n# a comment at any place\n"),
        lambda text: text.replace("(", "(  # why\n\n").replace("[", "[\n"),
    ],
    ids=["bom", "crlf", "cr", "tabs", "no newline", "blank lines", "goes on in brackets"],
)
def test_how_lines_are_written_does_not_matter(change: Any) -> None:
    assert parse(change(ORDER)).functions == parse(ORDER).functions


def test_words_of_the_language_are_names_of_arguments_and_actions() -> None:
    assert print_expression(value_of("@shop.sleep(fn=1, parallel=2)")) == "@shop.sleep(fn=1, parallel=2)"


def test_all_errors_of_a_file_are_told_each_at_its_place() -> None:
    text = """\
fn main(a, b=1, c):
    x = @f(a=1) [retires: 3, backoff: 2m]
    if x = 3:
        break
    elfi x:
        y = a.lower()
    while x
        continue
    retrun 5
    z = "abc
    w = (1,
    return @f(1)
    try:
        a = 1
    x = 5q
def helper():
    a + b = 2
    @f(x=1) [retry: 2,
             backoff: soon]
   z = a && b
"""
    found = problems_of(text)
    assert [(line, column) for line, column, _ in found] == [
        *((1, 17), (2, 18), (3, 10), (4, 9), (5, 5), (6, 14), (7, 12), (9, 5), (10, 9), (11, 9), (12, 15), (13, 5)),
        *((15, 9), (16, 1), (17, 5), (19, 14), (20, 4), (20, 10)),
    ]
    said = {line: message for line, _, message in found}
    assert "did you mean 'retry'?" in said[2]
    assert "write '=='" in said[3]
    assert "did you mean 'elif'?" in said[5]
    assert "did you mean 'return'?" in said[9]
    assert "did you mean 'fn'?" in said[16]


def test_an_error_shows_the_line_and_points_at_the_place() -> None:
    with pytest.raises(ScriptError) as raised:
        parse("fn main():\n\tif order = 3:\n\t\tpass\n", "order.rd")
    assert str(raised.value).splitlines() == [
        "order.rd:2:11: '=' gives a name its value; to compare, write '=='",
        "    if order = 3:",
        "             ^",
    ]


@pytest.mark.parametrize(
    ("before", "columns"), [("ab", 2), ("\U0001f600", 2), ("e\u0301\u65e5", 3), ("\u2764\ufe0f", 1)]
)
def test_the_caret_stands_under_its_place_after_characters_of_any_width(before: str, columns: int) -> None:
    with pytest.raises(ScriptError) as raised:
        parse(f"x = '{before}' = 1\n")
    assert str(raised.value).splitlines()[2] == " " * (4 + len("x = '' ") + columns) + "^"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the script is empty"),
        ("# only this\n", "the script is empty"),
        ("fn main():\n", "expected an indented line"),
        ("  x = 1\n", "indented more than its block"),
        ("if a:\n\tx = 1\n        y = 1\n", "tabs and spaces do not mix"),
        ("x = f(1", "never closed"),
        ("x = 1)", "found ')'"),
        ('x = f"a"', "no prefix 'f'"),
        ("x = a.b.c", "only a failure"),
        ("a, b = c", "one name a line"),
        ("a = b = 1", "assign one name a line; a = b = ... is not supported"),
        ("fn f(*a):\n    pass\n", "a parameter is a name, with a default or without: fn f(a, b=1)"),
        ("@f() [retry: 3, failures: 1]", "allowed: failures before an arrow"),
        ("x = 1; y = 2", "one statement a line"),
        ("x = a + \\\n  b\n", "only inside brackets"),
        ("if a: b()", "a line of its own"),
        ("else if a:\n    b()\n", "found 'else'"),
        ("if a:\n    b()\nelse if c:\n    d()\n", "write 'elif'"),
        ("for i in range(3)\n    f()\n", "expected ':'"),
        ("break", "'break' belongs into a 'for'"),
        ("raise", "belongs into an 'except'"),
        ("parallel:\n    x = 1\n", "found '1'"),
        ("parallel:\n    x = f()\n    x = g()\n", "assigned twice"),
        ("x = spread y:z -> 1", "found '1'"),
        ("x = [spread y:z -> @f()]", "found 'spread'"),
        ("try:\n    f()\nexcept:\n    g()\nexcept ValueError:\n    h()\n", "put it last"),
        ("try:\n    f()\n", "expected 'except' or 'finally'"),
        ("f() = 1", "only a name or an element"),
        ("f(a=1, 2)", "put arguments without a name before"),
        ("@f(a=1, a=2)", "argument 'a' is given twice"),
        ("@f(1)", "have names"),
        ("fn f(a, a):\n    pass\n", "parameter 'a' is already there"),
        ("fn f():\n    pass\nfn f():\n    pass\n", "'f' is already defined on line 1"),
        ("fn main():\n    pass\nx = 1\n", "outside all functions"),
        ("for = 1", "found '='"),
        ("x = for", "found 'for'"),
        ("x = 012", "does not begin with 0"),
        ('x = "\\d"', "not an escape"),
        ('x = "\\ud800"', "unpaired surrogates"),
        ('x = "\\N{no such thing}"', "no character is named"),
        ("x = 5parsecs", "neither a number nor a duration"),
        ("x = @f() [timeout: soon]", "policy: key 'brackets[0].timeout'"),
        ("x = @f() [retry: n]", "policy: key 'brackets[0].retry'"),
        ("x = @f() []", "policy: "),
        ("x = charge() [timeout: 30s]", "write @ before its name"),
        ("x = charge() [retry: 3, backoff: 1m]", "write @ before its name"),
        ("x = charge() [NetworkError -> retry: 3]", "write @ before its name"),
        ("x = [a for a in b]", "no comprehensions"),
        ("x = $5", "'$' means nothing"),
        ("x = " + "(" * (MOST_NESTING + 1), "nested too deeply"),
        ("x = " + "-" * 10_000 + "1", "nested too deeply"),
        ("x = a" + "[0]" * 10_000, "nested too deeply"),
        ("".join(" " * depth + "if a:\n" for depth in range(MOST_NESTING + 2)), "nested too deeply"),
        ("x" * (LONGEST_SCRIPT + 1), f"at most {LONGEST_SCRIPT:,}"),
        ("\n" * MOST_LINES + "x", f"5,001 lines; at most {MOST_LINES:,}"),
        ("l.append(2)", "write l += [2]"),
        ("l.append(f(2))", "write l += [element]"),
        ('x = "a".upper()', 'no methods; write upper("a")'),
        ('x = a.split(",")', 'write split(a, ",")'),
        ('x = ",".join(f(a))', 'write join(",", ...)'),
        ("x = f(1).keys()", "write keys(value)"),
    ],
    ids=lambda text: text[:24],
)
def test_what_makes_no_sense_is_told_once_and_in_words(text: str, says: str) -> None:
    assert says in message_of(text)


def test_a_problem_that_follows_from_another_is_not_told() -> None:
    text = "if a b:\n    f()\nelif c:\n    g()\nelse:\n    h()\ntry\n    f()\nexcept:\n    g()\n"
    assert [line for line, _, _ in problems_of(text)] == [1, 7]
    assert [line for line, _, _ in problems_of("if a b: f()\nelse:\n    g()\n")] == [1]


def test_nesting_up_to_the_limit_is_read() -> None:
    depth = MOST_NESTING - 1
    parse("x = " + "[" * depth + "]" * depth)
    parse(
        "".join(" " * one + "if a:\n" for one in range(MOST_NESTING)) + " " * MOST_NESTING + "f(a)\n".replace("(a)", "")
    )


def test_only_so_many_problems_are_told_and_the_rest_is_counted() -> None:
    with pytest.raises(ScriptError) as raised:
        parse("x = = 1\n" * 80)
    assert len(raised.value.problems) == MOST_SHOWN
    assert str(raised.value).splitlines()[-1] == f"and {80 - MOST_SHOWN} more problems"


def test_a_line_with_a_secret_in_it_is_not_shown() -> None:
    with pytest.raises(ScriptError) as raised:
        parse('x = @login(url="https://me:hunter2@example.com") oops')
    assert "hunter2" not in str(raised.value)


def test_warnings_about_a_policy_are_kept_with_their_line() -> None:
    (statement,) = parse("\n\n@f() [KeyError -> retry: 3,\n backoff: 1s] [timeout: 5s]").functions["main"].body
    assert isinstance(statement, nodes.ExpressionStatement)
    assert isinstance(statement.value, nodes.ActionCall)
    assert statement.value.policy is not None
    (warning,) = statement.value.policy.reading.warnings
    assert (warning.id, warning.line) == ("timeout-not-retried", 4)


@pytest.mark.parametrize("call", ['x = "a".title()', "x = d.get(1)"])
def test_a_method_without_a_builtin_is_given_no_replacement(call: str) -> None:
    assert message_of(call) == "values have no methods"


def test_many_unknown_names_are_told_in_no_time() -> None:
    """Each was compared with all the names that there are: some seconds for these."""
    known = "".join(f"    variable{number}x = 1\n" for number in range(300))
    unknown = "".join(f"    a = [variablX{number}x, functioX{number}x()]\n" for number in range(300))
    functions = "".join(f"fn function{number}x():\n    pass\n" for number in range(300))
    text = f"fn main():\n{known}{unknown}{functions}"
    begun = time.process_time()
    Script("order", text)
    assert "did you mean 'function0x'" in str(check_text(text, "order")[0])
    assert time.process_time() - begun < 2
