"""The syntax tree of a script: statements and functions around the expressions of `redrive.expressions`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from redrive.expressions.nodes import Argument, Call, Index, Name, Node
from redrive.near_names import did_you_mean
from redrive.notation.reading import Reading
from redrive.policies.policy import Policy


@dataclass(frozen=True, slots=True)
class Duration(Node):
    """`5m`: as a value it is its seconds."""

    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PolicyBrackets(Node):
    """All brackets behind one action call. Two are equal when their policies are, however they are written."""

    text: str = field(compare=False, repr=False)
    reading: Reading = field(compare=False, repr=False)
    policy: Policy


@dataclass(frozen=True, slots=True)
class ActionCall(Node):
    """`@name(a=b) [retry: 3]`. The name may have dots. No argument name occurs twice."""

    name: str
    arguments: tuple[Argument, ...]
    policy: PolicyBrackets | None


@dataclass(frozen=True, slots=True)
class Spread(Node):
    """`spread items:name -> @action(...)`: one call per element, all at once. Never inside another expression."""

    items: Node
    name: str
    call: ActionCall | Call


@dataclass(frozen=True, slots=True)
class ExpressionStatement(Node):
    """An expression whose value is dropped, such as a call."""

    value: Node


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`name = value`, `name[index] = value`."""

    target: Name | Index
    value: Node


@dataclass(frozen=True, slots=True)
class AugmentedAssign(Node):
    """`name += value`; the operator is without its `=`."""

    target: Name | Index
    operator: str
    value: Node


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """One `if` or `elif` with its body."""

    test: Node
    body: "Block"


@dataclass(frozen=True, slots=True)
class If(Node):
    """`if`, each `elif`, and `else` (empty when there is none)."""

    branches: tuple[Branch, ...]
    otherwise: "Block"


@dataclass(frozen=True, slots=True)
class For(Node):
    """`for name in items:`. Several names unpack each element: `for key, value in items(d):`."""

    names: tuple[str, ...]
    items: Node
    body: "Block"


@dataclass(frozen=True, slots=True)
class While(Node):
    """`while test:`."""

    test: Node
    body: "Block"


@dataclass(frozen=True, slots=True)
class Jump(Node):
    """`break`, `continue` or `pass`. The first two are always inside a loop."""

    word: str


@dataclass(frozen=True, slots=True)
class Return(Node):
    """`return value`, or None without one."""

    value: Node | None


@dataclass(frozen=True, slots=True)
class Sleep(Node):
    """`sleep 5m`, `sleep seconds`: a durable timer."""

    duration: Node


@dataclass(frozen=True, slots=True)
class Raise(Node):
    """`raise ValueError("text")`; without an error, in an `except`, the failure that was caught."""

    error: str | None
    message: Node | None


@dataclass(frozen=True, slots=True)
class Handler(Node):
    """`except (A, b.C) as name:`; without types it catches every Exception."""

    types: tuple[str, ...]
    name: str | None
    body: "Block"


@dataclass(frozen=True, slots=True)
class Try(Node):
    """At least one handler or a `finally`; `else` and `finally` are empty when they are not written.

    A handler without types is the last one, and `else` follows only a handler.
    """

    body: "Block"
    handlers: tuple[Handler, ...]
    otherwise: "Block"
    final: "Block"


@dataclass(frozen=True, slots=True)
class ParallelBranch(Node):
    """One line of a `parallel:` block: `name = @action(...)` or a call alone."""

    name: str | None
    call: ActionCall | Call


@dataclass(frozen=True, slots=True)
class Parallel(Node):
    """All its calls at once. No name is assigned twice."""

    branches: tuple[ParallelBranch, ...]


Statement: TypeAlias = (
    ExpressionStatement | Assign | AugmentedAssign | If | For | While | Jump | Return | Sleep | Raise | Try | Parallel
)
Block: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter. Its default, where it has one, is evaluated at each call that needs it."""

    name: str
    default: Node | None


@dataclass(frozen=True, slots=True)
class Function(Node):
    """`fn name(parameters):`. Parameters without a default come first; no name occurs twice."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Block
    implicit: bool = False
    """Statements outside all functions, which together are `main()`."""

    @property
    def variables(self) -> frozenset[str]:
        """The function's own names: as in Python, all that it assigns anywhere."""
        return frozenset((*(one.name for one in self.parameters), *assigned_in(self.body)))

    def problem(self, positional: int, named: Sequence[str]) -> str | None:
        """What is wrong with the arguments of a call; None when they fit."""
        parameters = [one.name for one in self.parameters]
        takes = f"{self.name} takes {', '.join(parameters) or 'no arguments'}"
        if positional > len(parameters):
            return f"{takes}; this call has {positional} arguments"
        for name in named:
            if name not in parameters:
                return f"{self.name} has no parameter {name!r}; {did_you_mean(name, parameters, takes)}"
            if name in parameters[:positional]:
                return f"{name!r} is given twice, by its position and by its name"
        given = {*parameters[:positional], *named}
        missing = [one.name for one in self.parameters if one.default is None and one.name not in given]
        return f"{self.name} lacks {', '.join(missing)}" if missing else None


@dataclass(frozen=True, slots=True)
class ScriptTree:
    """A parsed script. `source` is what its errors call it, `text` what was parsed."""

    functions: Mapping[str, Function]
    source: str = field(compare=False)
    text: str = field(compare=False, repr=False)

    @property
    def entry(self) -> Function | None:
        """What a flow runs: `main`, or the only function there is."""
        if len(self.functions) == 1:
            return next(iter(self.functions.values()))
        return self.functions.get("main")


def assigned_in(block: Block) -> Iterator[str]:
    """The names that the statements of a block assign, those in inner blocks included."""
    for node in block:
        match node:
            case Assign() | AugmentedAssign():
                if isinstance(node.target, Name):
                    yield node.target.name
            case For():
                yield from node.names
            case Parallel():
                yield from (branch.name for branch in node.branches if branch.name is not None)
            case Try():
                yield from (handler.name for handler in node.handlers if handler.name is not None)
            case _:
                pass
        for inner in blocks_of(node):
            yield from assigned_in(inner)


def blocks_of(node: Statement) -> list[Block]:
    """The blocks that a statement has."""
    match node:
        case If():
            return [*(branch.body for branch in node.branches), node.otherwise]
        case For() | While():
            return [node.body]
        case Try():
            return [node.body, *(handler.body for handler in node.handlers), node.otherwise, node.final]
        case _:
            return []
