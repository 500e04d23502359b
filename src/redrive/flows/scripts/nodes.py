"""What a script says, as data: nodes, each with its place in the text. Places do not count when two are compared.

Chains are flat (`a + b - c` is one node), so that how deep a script goes is how deep it was written: at most
`limits.MOST_NESTING`, and walking it by recursion is safe.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

from redrive.notation.reading import Reading
from redrive.policies.policy import Policy


class Span(NamedTuple):
    """Lines and columns count from 1; the end is the first column after."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything that stands in a script."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """`None`, `True`, `12`, `1.5`, `"text"`."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Duration(Node):
    """`5m`: a time with its unit, which `sleep` takes. As a value it is its seconds."""

    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class ListDisplay(Node):
    """`[a, b]`."""

    items: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True)
class DictDisplay(Node):
    """`{"a": 1}`, keys and values in order."""

    pairs: "tuple[tuple[Expression, Expression], ...]"


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`value[index]`."""

    value: "Expression"
    index: "Expression"


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`value[start:stop:step]`."""

    value: "Expression"
    start: "Expression | None"
    stop: "Expression | None"
    step: "Expression | None"


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`error.message`: of a failure that was caught with `as`, here or elsewhere."""

    value: Name
    name: str


UnaryOperator: TypeAlias = OneOf["-", "+", "not"]
ArithmeticOperator: TypeAlias = OneOf["+", "-", "*", "/", "//", "%", "**"]
ComparisonOperator: TypeAlias = OneOf["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-a`, `not a`."""

    operator: UnaryOperator
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`first + a - b`: from left to right, all of one precedence. `**` has exactly one in `rest`."""

    first: "Expression"
    rest: "tuple[tuple[ArithmeticOperator, Expression], ...]"


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`first < a <= b`, chained as in Python: each operand is evaluated once, and the first false one ends it."""

    first: "Expression"
    rest: "tuple[tuple[ComparisonOperator, Expression], ...]"


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`a and b and c`: gives the operand that decided, as in Python."""

    operator: OneOf["and", "or"]
    operands: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`then if test else otherwise`."""

    test: "Expression"
    then: "Expression"
    otherwise: "Expression"


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """`name=value` in a call. Its `span` is the whole, the value has its own."""

    name: str
    value: "Expression"


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`name(a, b=c)`: a function of the script or a builtin. No argument name stands twice."""

    name: str
    positional: "tuple[Expression, ...]"
    named: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class PolicyBrackets(Node):
    """All brackets after one action call, read: `reading.policy` is the policy, `reading.warnings` is for the checker.

    Two are the same when their policies are; the spelling does not count.
    """

    text: str = field(compare=False, repr=False)
    reading: Reading = field(compare=False, repr=False)
    policy: Policy
    """That of the reading."""


@dataclass(frozen=True, slots=True)
class ActionCall(Node):
    """`@name(a=b) [retry: 3]`. The name may have dots. No argument name stands twice."""

    name: str
    arguments: tuple[Argument, ...]
    policy: PolicyBrackets | None


@dataclass(frozen=True, slots=True)
class Spread(Node):
    """`spread items:name -> @action(...)`: one call per element, all at once. Never inside another expression."""

    items: "Expression"
    name: str
    call: ActionCall | Call


Expression: TypeAlias = (
    Literal
    | Duration
    | Name
    | ListDisplay
    | DictDisplay
    | Index
    | Slice
    | Attribute
    | Unary
    | Arithmetic
    | Comparison
    | Logic
    | Conditional
    | Call
    | ActionCall
    | Spread
)


@dataclass(frozen=True, slots=True)
class ExpressionStatement(Node):
    """An expression whose value is dropped, such as a call."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`name = value`, `name[index] = value`."""

    target: Name | Index
    value: Expression


@dataclass(frozen=True, slots=True)
class AugmentedAssign(Node):
    """`name += value`; the operator is without its `=`."""

    target: Name | Index
    operator: ArithmeticOperator
    value: Expression


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """One `if` or `elif` with its body. The span is the line with the test."""

    test: Expression
    body: "Block"


@dataclass(frozen=True, slots=True)
class If(Node):
    """`if`, each `elif`, and `else` (empty when there is none)."""

    branches: tuple[Branch, ...]
    otherwise: "Block"


@dataclass(frozen=True, slots=True)
class For(Node):
    """`for name in items:`. Several names take each element apart: `for key, value in items(d):`."""

    names: tuple[str, ...]
    items: Expression
    body: "Block"


@dataclass(frozen=True, slots=True)
class While(Node):
    """`while test:`."""

    test: Expression
    body: "Block"


@dataclass(frozen=True, slots=True)
class Break(Node):
    """Stands in a loop, always."""


@dataclass(frozen=True, slots=True)
class Continue(Node):
    """Stands in a loop, always."""


@dataclass(frozen=True, slots=True)
class Pass(Node):
    """Does nothing."""


@dataclass(frozen=True, slots=True)
class Return(Node):
    """`return value`, or None without one."""

    value: Expression | None


@dataclass(frozen=True, slots=True)
class Sleep(Node):
    """`sleep 5m`, `sleep seconds`: a durable timer. The value is a number of seconds or a `Duration`."""

    duration: Expression


@dataclass(frozen=True, slots=True)
class Raise(Node):
    """`raise ValueError("text")`; without an error, in an `except`, the failure that was caught."""

    error: str | None
    message: Expression | None


@dataclass(frozen=True, slots=True)
class Handler(Node):
    """`except (A, b.C) as name:`; no types catch every Exception. The span is the line with the types."""

    types: tuple[str, ...]
    name: str | None
    body: "Block"


@dataclass(frozen=True, slots=True)
class Try(Node):
    """At least one handler or a `finally`; `else` and `finally` are empty when they are not written.

    A handler without types is the last one, and `else` stands only after a handler.
    """

    body: "Block"
    handlers: tuple[Handler, ...]
    otherwise: "Block"
    final: "Block"


@dataclass(frozen=True, slots=True)
class ParallelBranch(Node):
    """`name = @action(...)` or a call alone, one line of a `parallel:` block."""

    name: str | None
    call: ActionCall | Call


@dataclass(frozen=True, slots=True)
class Parallel(Node):
    """All its calls at once. No name is assigned twice."""

    branches: tuple[ParallelBranch, ...]


Statement: TypeAlias = (
    ExpressionStatement
    | Assign
    | AugmentedAssign
    | If
    | For
    | While
    | Break
    | Continue
    | Pass
    | Return
    | Sleep
    | Raise
    | Try
    | Parallel
)
Block: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter, with its default where it has one. The default is evaluated at each call that needs it."""

    name: str
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Function(Node):
    """`fn name(parameters):`. Parameters without a default come first; no name stands twice."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Block
    implicit: bool = False
    """Statements that stand in no function are together `main()`."""


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed file. `source` is what its errors call it, `text` what was parsed."""

    functions: Mapping[str, Function]
    source: str = field(compare=False)
    text: str = field(compare=False, repr=False)

    @property
    def entry(self) -> Function | None:
        """What a flow runs: `main`, or the only function there is."""
        if len(self.functions) == 1:
            return next(iter(self.functions.values()))
        return self.functions.get("main")
