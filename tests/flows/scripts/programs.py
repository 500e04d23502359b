"""Programs by chance that mean something: the same text is a script and, nearly, Python.

Each is drawn as a script. Its Python translation differs only in spelling: `fn` is `def`, an action is a function, and
so on; so what Python does with it is what the script must do.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from redrive.expressions.limits import Budget, Scope
from redrive.flows.scripts.builtins import BUILTINS

SHIMS = ("lower", "upper", "strip", "split", "join", "keys", "values", "items")
"""Builtins that Python has in another form."""
ERRORS = ("ValueError", "KeyError", "IndexError", "TypeError", "ZeroDivisionError", "ArithmeticError", "LookupError")

Draw = Callable[[st.SearchStrategy[Any]], Any]


class _Writer:
    """Draws one program."""

    def __init__(self, draw: Draw, spread: str) -> None:
        self._draw = draw
        self._spread = spread
        self._counters = 0
        self._size = 0
        self._functions: list[str] = []

    def one(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    # Expressions, by what they mostly give

    def whole(self, depth: int = 2) -> str:
        if depth <= 0 or self.number(0, 3) == 0:
            return str(self.one("a", "b", str(self.number(0, 12)), "n"))

        def one() -> str:
            return self.whole(depth - 1)

        return str(
            self.one(
                lambda: f"{one()} {self.one('+', '-', '*')} {one()}",
                lambda: f"({one()} {self.one('+', '-', '*', '/')} {one()}) {self.one('*', '-', '+')} {self.whole(0)}",
                lambda: f"{one()} // {one()}",
                lambda: f"(0 + {one()}) % {one()}",
                lambda: f"-{one()} ** {self.number(0, 3)}",
                lambda: f"len({self.listed(depth - 1)})",
                lambda: f"xs[{one()}]",
                lambda: f'd["{self.one("k", "m")}"]',
                lambda: f"({one()} if {self.truth(depth - 1)} else {one()})",
                lambda: f"{self.one('min', 'max')}({one()}, {one()})",
                lambda: f"abs({one()})",
                lambda: f"sum({self.listed(depth - 1)})",
                lambda: f"int({one()})",
                lambda: f"round({one()} / 2)",
                lambda: f"({one()} {self.one('and', 'or')} {one()})",
                lambda: f"@rd.work(n={one()})",
                *((lambda: f"{self.one(*self._functions)}({one()}, {one()})",) if self._functions else ()),
            )()
        )

    def truth(self, depth: int = 2) -> str:
        if depth <= 0:
            return str(self.one("True", "False", "a", "xs", "s", "a < b"))

        def inner() -> str:
            return self.whole(depth - 1)

        return str(
            self.one(
                lambda: f"{inner()} {self.one('<', '<=', '==', '!=', '>', '>=')} {inner()}",
                lambda: f"{inner()} < {inner()} {self.one('<=', '!=')} {inner()}",
                lambda: f"{inner()} {self.one('in', 'not in')} {self.listed(depth - 1)}",
                lambda: f"not {self.truth(depth - 1)}",
                lambda: f"({self.truth(depth - 1)} {self.one('and', 'or')} {self.truth(depth - 1)})",
                lambda: f"{self.anything(depth - 1)} {self.one('is', 'is not')} None",
                lambda: f'"{self.one("k", "z")}" in {self.one("s", "d")}',
            )()
        )

    def text(self, depth: int = 2) -> str:
        if depth <= 0:
            return str(self.one("s", '"k"', "'m\\n\\u00e9'", '""'))
        return str(
            self.one(
                lambda: f"{self.text(depth - 1)} + {self.text(depth - 1)}",
                lambda: f"str({self.anything(depth - 1)})",
                lambda: f"{self.one('upper', 'lower', 'strip')}({self.text(depth - 1)})",
                lambda: f"{self.text(0)} * {self.number(0, 3)}",
                lambda: f"s[{self.whole(0)}:{self.whole(0)}]",
                lambda: f'join("-", split({self.text(depth - 1)}))',
            )()
        )

    def listed(self, depth: int = 2) -> str:
        if depth <= 0:
            return str(self.one("xs", "[]", "[1, 2, 3]", "[b, a]"))
        return str(
            self.one(
                lambda: f"[{self.whole(depth - 1)}, {self.whole(depth - 1)}]",
                lambda: f"{self.listed(depth - 1)} + {self.listed(depth - 1)}",
                lambda: f"xs[{self.whole(0)}:]",
                lambda: f"xs[::{self.one(-1, 2, 0)}]",
                lambda: f"list(range({self.whole(0)}))",
                lambda: f"sorted({self.listed(depth - 1)}, reverse={self.truth(0)})",
                lambda: f"{self.one('keys', 'values')}(d)",
                lambda: f"{self.listed(0)} * {self.number(0, 2)}",
            )()
        )

    def anything(self, depth: int = 2) -> str:
        kind = self.one(self.whole, self.whole, self.text, self.listed, self.truth, self.table)
        return str(kind(depth))

    def table(self, depth: int = 2) -> str:
        if depth <= 0:
            return str(self.one("d", "{}", '{"k": 1}'))
        return f'{{"k": {self.anything(depth - 1)}, {self.text(0)}: {self.whole(depth - 1)}}}'

    # Statements

    def block(self, indent: int, depth: int, loop: bool, handler: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.number(1, 3)):
            lines += self.statement(indent, depth, loop, handler)
        return lines

    def statement(self, indent: int, depth: int, loop: bool, handler: bool) -> list[str]:
        self._size += 1
        simple = [self.assignment] * 5 + [self.ending]
        compound = [self.branches, self.each, self.counted, self.attempt] if depth > 0 and self._size < 25 else []
        lines: list[str] = self.one(*simple, *compound)(depth, loop, handler)
        return ["    " * indent + line for line in lines]

    def assignment(self, depth: int, loop: bool, handler: bool) -> list[str]:
        kinds = {"a": self.whole, "b": self.whole, "xs": self.listed, "d": self.table, "s": self.text}
        form = self.number(0, 16)
        if form <= 4:
            name = self.one(*kinds)
            # Now and then a name is given what the rest of the program does not expect.
            return [f"{name} = {self.anything() if self.number(0, 11) == 0 else kinds[name]()}"]
        if form == 5:
            return [f"a {self.one('+', '-', '*', '//')}= {self.whole()}"]
        if form == 6:
            return [f"xs += {self.listed()}"]
        if form == 7:
            return [f"xs[{self.whole(0)}] = {self.whole()}"]
        if form == 8:
            return [f'd["m"] = {self.anything()}']
        if form == 9:
            return [f'd["k"] {self.one("+", "*")}= {self.whole(1)}']
        if form <= 13:
            return [("t = b", "a = t", "ys = xs", "s += s")[form - 10]]
        if form == 14:
            return [f"xs = spread {self.listed(1)}:x -> @rd.{self._spread}(n=x)"]
        return [f"@rd.note(what={self.text(1)})" if form == 15 else "sleep 2"]

    def ending(self, depth: int, loop: bool, handler: bool) -> list[str]:
        form = self.one(
            *("return", "raise", "raise ValueError", "pass"), *("break", "continue") * 2 * loop, *("again",) * handler
        )
        if form == "return":
            return [f"return {self.anything(1)}"]
        if form == "raise":
            return [f"raise {self.one(*ERRORS)}({self.text(1)})"]
        return ["raise" if form == "again" else form]

    def branches(self, depth: int, loop: bool, handler: bool) -> list[str]:
        lines = [f"if {self.truth()}:", *self.block(1, depth - 1, loop, handler)]
        if self.number(0, 2) == 0:
            lines += [f"elif {self.truth()}:", *self.block(1, depth - 1, loop, handler)]
        if self.number(0, 1):
            lines += ["else:", *self.block(1, depth - 1, loop, handler)]
        return lines

    def each(self, depth: int, loop: bool, handler: bool) -> list[str]:
        over = self.one("xs", "xs[:4]", "d", '"abc"', "range(3)", "[1, 2, 3]", "sorted(xs)")
        head = self.one(f"for a in {over}:", f"for n in {over}:", "for k, a in items(d):", "for a, b in [[1, 2], xs]:")
        return [head, *self.block(1, depth - 1, True, handler)]

    def counted(self, depth: int, loop: bool, handler: bool) -> list[str]:
        self._counters += 1
        counter = f"i{self._counters}"
        body = self.block(1, depth - 1, True, handler)
        return [f"{counter} = 0", f"while {counter} < {self.number(0, 4)}:", f"    {counter} += 1", *body]

    def attempt(self, depth: int, loop: bool, handler: bool) -> list[str]:
        lines = ["try:", *self.block(1, depth - 1, loop, handler)]
        handlers = self.number(0, 2)
        for _ in range(handlers):
            types = self.one(*ERRORS, "(KeyError, ValueError)", "(LookupError, TypeError)", "Exception")
            name = self.one("", " as error")
            used = ["    s = str(error) + error.type + error.message"] if name and self.number(0, 1) else []
            lines += [f"except {types}{name}:", *used, *self.block(1, depth - 1, loop, True)]
        if handlers and self.number(0, 1):
            lines += ["else:", *self.block(1, depth - 1, loop, handler)]
        if not handlers or self.number(0, 1):
            lines += ["finally:", *self.block(1, depth - 1, loop, handler)]
        return lines

    def program(self) -> str:
        lines: list[str] = []
        for name in ("first", "second")[: self.number(0, 2)]:
            start = ["    xs = [n, a]", '    d = {"k": a}', '    s = "f"', "    b = 1"]
            lines += [f"fn {name}(a, n=3):", *start, *self.block(1, 1, False, False), "    return a"]
            self._functions.append(name)
        lines += ["fn main(n):", "    a = 1", "    b = 2", "    xs = [3, 1, 2]", "    ys = xs", '    d = {"k": 5}']
        lines += ['    s = "some text"', *self.one([], ["    t = 7"], ["    t = 8"]), *self.block(1, 3, False, False)]
        return "\n".join([*lines, "    return str([a, b, xs, ys, d, s])", ""])


@st.composite
def programs(draw: st.DrawFn, spread: str = "work") -> str:
    """`spread`: the action that is called for many at once."""
    return _Writer(draw, spread).program()


def as_python(text: str) -> str:
    text = re.sub(r"^fn ", "def ", text, flags=re.MULTILINE)
    text = re.sub(r"^( *)sleep (.*)$", r"\1sleep(\2)", text, flags=re.MULTILINE)
    text = re.sub(r"= spread (.*):(\w+) -> (@.*)$", r"= [\3 for \2 in \1]", text, flags=re.MULTILINE)
    text = re.sub(r"\berror\.message", "str(error)", text)
    text = re.sub(r"\berror\.type", "type(error).__name__", text)
    return text.replace("@rd.", "")


def run_python(text: str, actions: Mapping[str, Callable[..., Any]], n: int) -> Any:
    """What Python makes of the program."""
    scope = Scope({}, Budget())
    shims = {name: _shim(BUILTINS[name].run, scope) for name in SHIMS}
    known = {name.removeprefix("rd."): run for name, run in actions.items()}
    names: dict[str, Any] = {**shims, **known, "sleep": lambda seconds: None}
    with warnings.catch_warnings():
        # Some versions of Python dislike what may leave a `finally`.
        warnings.simplefilter("ignore")
        exec(compile(as_python(text), "<program>", "exec"), names)  # noqa: S102 - our own text, to compare with
        return names["main"](n)


def _shim(run: Callable[..., Any], scope: Scope) -> Callable[..., Any]:
    return lambda *args: run(scope, *args)
