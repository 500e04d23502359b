"""Scripts by chance: nodes that a text can say, of bounded size. `print_script` writes them down."""

from hypothesis import strategies as st

from redrive.expressions import nodes as inner_nodes
from redrive.expressions.nodes import Node, Position
from redrive.flows.scripts import nodes
from redrive.flows.scripts.nodes import Block, Statement
from redrive.notation.formats.brackets import read_text

AT = Position(1, 1)
NAMES = ("a", "b", "order", "item_2", "überlast", "retry")
FUNCTIONS = ("helper", "len", "total")
ACTIONS = ("charge", "shop.pack", "sleep")
ERRORS = ("ValueError", "shop.OutOfStock", "NetworkError")
POLICIES = (
    "[retry: 3, backoff: 60]",
    "[NetworkError -> retry: 5, backoff: 2m, jitter: additive 250ms, max_backoff: 5m]",
    "[NetworkError -> retry: 5, backoff: 2m, jitter: proportional 12.5%, max_backoff: 5m]",
    "[(ValueError, status:5xx) -> retry: 1, backoff: 1s, linear] [timeout: 30s] [deadline: 1h, never_on: (KeyError)]",
)

names = st.sampled_from(NAMES)
numbers = st.integers(0, 2**70) | st.floats(0, allow_nan=False)
strings = st.text("aZ0 #'\"\\\n\t\r\0\x1b{}[]é\u2028•😀", max_size=8)
literals = st.builds(lambda value: inner_nodes.Literal(value, at=AT), st.none() | st.booleans() | numbers | strings)
durations = st.sampled_from([("5m", 300.0), ("1h30m", 5400.0), ("500ms", 0.5), ("1.5s", 1.5)])
leaves: st.SearchStrategy[Node] = (
    literals
    | names.map(lambda name: inner_nodes.Name(name, at=AT))
    | durations.map(lambda one: nodes.Duration(*one, at=AT))
    | names.map(lambda name: inner_nodes.Attribute(inner_nodes.Name(name, at=AT), "message", at=AT))
)
policies = st.none() | st.sampled_from(POLICIES)


def _policy(text: str | None) -> nodes.PolicyBrackets | None:
    if text is None:
        return None
    reading = read_text(text)
    return nodes.PolicyBrackets(text, reading, reading.policy, at=AT)


def _arguments(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[tuple[inner_nodes.Argument, ...]]:
    return st.dictionaries(st.sampled_from((*NAMES, "sleep", "fn")), inner, max_size=2).map(
        lambda given: tuple(inner_nodes.Argument(name, value, at=AT) for name, value in given.items())
    )


def _calls(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[inner_nodes.Call]:
    return st.builds(
        lambda name, positional, named: inner_nodes.Call(name, tuple(positional), named, at=AT),
        st.sampled_from(FUNCTIONS),
        st.lists(inner, max_size=2),
        _arguments(inner),
    )


def _actions(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[nodes.ActionCall]:
    return st.builds(
        lambda name, given, policy: nodes.ActionCall(name, given, _policy(policy), at=AT),
        st.sampled_from(ACTIONS),
        _arguments(inner),
        policies,
    )


def _larger(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    ends = st.none() | inner
    rest = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        st.lists(inner, max_size=2).map(lambda items: inner_nodes.ListDisplay(tuple(items), at=AT)),
        st.lists(st.tuples(inner, inner), max_size=2).map(lambda pairs: inner_nodes.DictDisplay(tuple(pairs), at=AT)),
        st.builds(lambda value, index: inner_nodes.Index(value, index, at=AT), inner, inner),
        st.builds(lambda *parts: inner_nodes.Slice(*parts, at=AT), inner, ends, ends, ends),
        st.builds(lambda sign, one: inner_nodes.Unary(sign, one, at=AT), st.sampled_from(["-", "+", "not"]), inner),
        st.builds(lambda one, other: inner_nodes.Arithmetic(one, (("**", other),), at=AT), inner, inner),
        *(
            st.builds(
                lambda first, pairs: inner_nodes.Arithmetic(first, tuple(pairs), at=AT),
                inner,
                st.lists(st.tuples(st.sampled_from(signs), inner), min_size=1, max_size=2),
            )
            for signs in (("+", "-"), ("*", "/", "//", "%"))
        ),
        st.builds(
            lambda first, pairs: inner_nodes.Comparison(first, tuple(pairs), at=AT),
            inner,
            st.lists(
                st.tuples(st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"]), inner),
                min_size=1,
                max_size=2,
            ),
        ),
        st.builds(
            lambda word, first, others: inner_nodes.Logic(word, (first, *others), at=AT),
            st.sampled_from(["and", "or"]),
            inner,
            rest,
        ),
        st.builds(lambda *parts: inner_nodes.Conditional(*parts, at=AT), inner, inner, inner),
        _calls(inner),
        _actions(inner),
    )


expressions: st.SearchStrategy[Node] = st.recursive(leaves, _larger, max_leaves=4)
calls = _actions(expressions) | _calls(expressions)
spreads = st.builds(lambda *parts: nodes.Spread(*parts, at=AT), expressions, names, calls)
values = expressions | spreads
targets: st.SearchStrategy[inner_nodes.Name | inner_nodes.Index] = names.map(
    lambda name: inner_nodes.Name(name, at=AT)
) | st.builds(lambda name, index: inner_nodes.Index(inner_nodes.Name(name, at=AT), index, at=AT), names, expressions)
parallels = st.lists(
    st.tuples(st.none() | names, calls), min_size=1, max_size=3, unique_by=lambda one: one[0] or one
).map(lambda branches: nodes.Parallel(tuple(nodes.ParallelBranch(name, call, at=AT) for name, call in branches), at=AT))
simple: st.SearchStrategy[Statement] = st.one_of(
    st.builds(lambda target, value: nodes.Assign(target, value, at=AT), targets, values),
    st.builds(
        lambda *parts: nodes.AugmentedAssign(*parts, at=AT),
        targets,
        st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]),
        values,
    ),
    values.map(lambda value: nodes.ExpressionStatement(value, at=AT)),
    (st.none() | values).map(lambda value: nodes.Return(value, at=AT)),
    expressions.map(lambda value: nodes.Sleep(value, at=AT)),
    st.builds(lambda *parts: nodes.Raise(*parts, at=AT), st.sampled_from(ERRORS), st.none() | expressions),
    st.just(nodes.Jump("pass", at=AT)),
    parallels,
)
_LOOP_ENDS: list[Statement] = [nodes.Jump("break", at=AT), nodes.Jump("continue", at=AT)]


def _blocks(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Block]:
    return st.lists(inner, min_size=1, max_size=2).map(tuple)


@st.composite
def _ifs(draw: st.DrawFn, inner: st.SearchStrategy[Statement]) -> Statement:
    branches = draw(st.lists(st.tuples(expressions, _blocks(inner)), min_size=1, max_size=2))
    otherwise = draw(st.just(()) | _blocks(inner))
    return nodes.If(tuple(nodes.Branch(*one, at=AT) for one in branches), otherwise, at=AT)


@st.composite
def _loops(draw: st.DrawFn, inner: st.SearchStrategy[Statement]) -> Statement:
    body = draw(_blocks(inner | st.sampled_from(_LOOP_ENDS)))
    if draw(st.booleans()):
        return nodes.While(draw(expressions), body, at=AT)
    several = draw(st.lists(names, min_size=1, max_size=2, unique=True))
    return nodes.For(tuple(several), draw(expressions), body, at=AT)


@st.composite
def _tries(draw: st.DrawFn, inner: st.SearchStrategy[Statement]) -> Statement:
    typed = draw(
        st.lists(
            st.tuples(st.lists(st.sampled_from(ERRORS), min_size=1, max_size=2), st.none() | names),
            min_size=0,
            max_size=2,
        )
    )
    again: Statement = nodes.Raise(None, None, at=AT)
    handled = _blocks(inner | st.just(again))
    handlers: list[nodes.Handler] = [nodes.Handler(tuple(types), name, draw(handled), at=AT) for types, name in typed]
    ends = draw(st.sets(st.sampled_from(["except", "else", "finally"])))
    if "except" in ends:
        handlers.append(nodes.Handler((), None, draw(handled), at=AT))
    final = draw(_blocks(inner)) if not handlers or "finally" in ends else ()
    otherwise = draw(_blocks(inner)) if handlers and "else" in ends else ()
    return nodes.Try(draw(_blocks(inner)), tuple(handlers), otherwise, final, at=AT)


statements: st.SearchStrategy[Statement] = st.recursive(
    simple, lambda inner: _ifs(inner) | _loops(inner) | _tries(inner), max_leaves=3
)
blocks = _blocks(statements)


@st.composite
def functions(draw: st.DrawFn, name: str) -> nodes.Function:
    called = draw(st.lists(names, max_size=3, unique=True))
    plain = draw(st.integers(0, len(called)))
    parameters = tuple(
        nodes.Parameter(one, None if index < plain else draw(expressions), at=AT) for index, one in enumerate(called)
    )
    return nodes.Function(name, parameters, draw(blocks), at=AT)


@st.composite
def scripts(draw: st.DrawFn) -> nodes.ScriptTree:
    """A few functions; sometimes `main` is the statements that stand in none."""
    found = {name: draw(functions(name)) for name in draw(st.lists(st.sampled_from(["main", "helper"]), unique=True))}
    if "main" not in found and (not found or draw(st.booleans())):
        found["main"] = nodes.Function("main", (), draw(blocks), implicit=True, at=AT)
    return nodes.ScriptTree(found, "generated.rd", "")
