"""Scripts by chance: nodes that a text can say, of bounded size. `print_script` writes them down."""

from hypothesis import strategies as st

from redrive.flows.scripts import nodes
from redrive.flows.scripts.nodes import Block, Expression, Span, Statement
from redrive.notation.formats.brackets import read_text

SPAN = Span(1, 1, 1, 1)
NAMES = ("a", "b", "order", "item_2", "überlast", "retry")
FUNCTIONS = ("helper", "len", "total")
ACTIONS = ("charge", "shop.pack", "sleep")
ERRORS = ("ValueError", "shop.OutOfStock", "NetworkError")
POLICIES = (
    "[retry: 3, backoff: 60]",
    "[NetworkError -> retry: 5, backoff: 2m, jitter: additive 250ms, max_backoff: 5m]",
    "[(ValueError, status:5xx) -> retry: 1, backoff: 1s, linear] [timeout: 30s] [deadline: 1h, never_on: (KeyError)]",
)

names = st.sampled_from(NAMES)
numbers = st.integers(0, 2**70) | st.floats(0, allow_nan=False)
strings = st.text("aZ0 #'\"\\\n\t\r\0\x1b{}[]é\u2028•😀", max_size=8)
literals = st.builds(lambda value: nodes.Literal(value, span=SPAN), st.none() | st.booleans() | numbers | strings)
durations = st.sampled_from([("5m", 300.0), ("1h30m", 5400.0), ("500ms", 0.5), ("1.5s", 1.5)])
leaves: st.SearchStrategy[Expression] = (
    literals
    | names.map(lambda name: nodes.Name(name, span=SPAN))
    | durations.map(lambda one: nodes.Duration(*one, span=SPAN))
    | names.map(lambda name: nodes.Attribute(nodes.Name(name, span=SPAN), "message", span=SPAN))
)
policies = st.none() | st.sampled_from(POLICIES)


def _policy(text: str | None) -> nodes.PolicyBrackets | None:
    if text is None:
        return None
    reading = read_text(text)
    return nodes.PolicyBrackets(text, reading, reading.policy, span=SPAN)


def _arguments(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[tuple[nodes.Argument, ...]]:
    return st.dictionaries(st.sampled_from((*NAMES, "sleep", "fn")), inner, max_size=2).map(
        lambda given: tuple(nodes.Argument(name, value, span=SPAN) for name, value in given.items())
    )


def _calls(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[nodes.Call]:
    return st.builds(
        lambda name, positional, named: nodes.Call(name, tuple(positional), named, span=SPAN),
        st.sampled_from(FUNCTIONS),
        st.lists(inner, max_size=2),
        _arguments(inner),
    )


def _actions(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[nodes.ActionCall]:
    return st.builds(
        lambda name, given, policy: nodes.ActionCall(name, given, _policy(policy), span=SPAN),
        st.sampled_from(ACTIONS),
        _arguments(inner),
        policies,
    )


def _larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    ends = st.none() | inner
    rest = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        st.lists(inner, max_size=2).map(lambda items: nodes.ListDisplay(tuple(items), span=SPAN)),
        st.lists(st.tuples(inner, inner), max_size=2).map(lambda pairs: nodes.DictDisplay(tuple(pairs), span=SPAN)),
        st.builds(lambda value, index: nodes.Index(value, index, span=SPAN), inner, inner),
        st.builds(lambda *parts: nodes.Slice(*parts, span=SPAN), inner, ends, ends, ends),
        st.builds(lambda sign, one: nodes.Unary(sign, one, span=SPAN), st.sampled_from(["-", "+", "not"]), inner),
        st.builds(lambda one, other: nodes.Arithmetic(one, (("**", other),), span=SPAN), inner, inner),
        *(
            st.builds(
                lambda first, pairs: nodes.Arithmetic(first, tuple(pairs), span=SPAN),
                inner,
                st.lists(st.tuples(st.sampled_from(signs), inner), min_size=1, max_size=2),
            )
            for signs in (("+", "-"), ("*", "/", "//", "%"))
        ),
        st.builds(
            lambda first, pairs: nodes.Comparison(first, tuple(pairs), span=SPAN),
            inner,
            st.lists(
                st.tuples(st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"]), inner),
                min_size=1,
                max_size=2,
            ),
        ),
        st.builds(
            lambda word, first, others: nodes.Logic(word, (first, *others), span=SPAN),
            st.sampled_from(["and", "or"]),
            inner,
            rest,
        ),
        st.builds(lambda *parts: nodes.Conditional(*parts, span=SPAN), inner, inner, inner),
        _calls(inner),
        _actions(inner),
    )


expressions: st.SearchStrategy[Expression] = st.recursive(leaves, _larger, max_leaves=4)
calls = _actions(expressions) | _calls(expressions)
spreads = st.builds(lambda *parts: nodes.Spread(*parts, span=SPAN), expressions, names, calls)
values = expressions | spreads
targets: st.SearchStrategy[nodes.Name | nodes.Index] = names.map(lambda name: nodes.Name(name, span=SPAN)) | st.builds(
    lambda name, index: nodes.Index(nodes.Name(name, span=SPAN), index, span=SPAN), names, expressions
)
parallels = st.lists(
    st.tuples(st.none() | names, calls), min_size=1, max_size=3, unique_by=lambda one: one[0] or one
).map(
    lambda branches: nodes.Parallel(
        tuple(nodes.ParallelBranch(name, call, span=SPAN) for name, call in branches), span=SPAN
    )
)
simple: st.SearchStrategy[Statement] = st.one_of(
    st.builds(lambda target, value: nodes.Assign(target, value, span=SPAN), targets, values),
    st.builds(
        lambda *parts: nodes.AugmentedAssign(*parts, span=SPAN),
        targets,
        st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]),
        values,
    ),
    values.map(lambda value: nodes.ExpressionStatement(value, span=SPAN)),
    (st.none() | values).map(lambda value: nodes.Return(value, span=SPAN)),
    expressions.map(lambda value: nodes.Sleep(value, span=SPAN)),
    st.builds(lambda *parts: nodes.Raise(*parts, span=SPAN), st.sampled_from(ERRORS), st.none() | expressions),
    st.just(nodes.Pass(span=SPAN)),
    parallels,
)
_LOOP_ENDS: list[Statement] = [nodes.Break(span=SPAN), nodes.Continue(span=SPAN)]


def _blocks(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Block]:
    return st.lists(inner, min_size=1, max_size=2).map(tuple)


@st.composite
def _ifs(draw: st.DrawFn, inner: st.SearchStrategy[Statement]) -> Statement:
    branches = draw(st.lists(st.tuples(expressions, _blocks(inner)), min_size=1, max_size=2))
    otherwise = draw(st.just(()) | _blocks(inner))
    return nodes.If(tuple(nodes.Branch(*one, span=SPAN) for one in branches), otherwise, span=SPAN)


@st.composite
def _loops(draw: st.DrawFn, inner: st.SearchStrategy[Statement]) -> Statement:
    body = draw(_blocks(inner | st.sampled_from(_LOOP_ENDS)))
    if draw(st.booleans()):
        return nodes.While(draw(expressions), body, span=SPAN)
    several = draw(st.lists(names, min_size=1, max_size=2, unique=True))
    return nodes.For(tuple(several), draw(expressions), body, span=SPAN)


@st.composite
def _tries(draw: st.DrawFn, inner: st.SearchStrategy[Statement]) -> Statement:
    typed = draw(
        st.lists(
            st.tuples(st.lists(st.sampled_from(ERRORS), min_size=1, max_size=2), st.none() | names),
            min_size=0,
            max_size=2,
        )
    )
    again: Statement = nodes.Raise(None, None, span=SPAN)
    handled = _blocks(inner | st.just(again))
    handlers: list[nodes.Handler] = [
        nodes.Handler(tuple(types), name, draw(handled), span=SPAN) for types, name in typed
    ]
    ends = draw(st.sets(st.sampled_from(["except", "else", "finally"])))
    if "except" in ends:
        handlers.append(nodes.Handler((), None, draw(handled), span=SPAN))
    final = draw(_blocks(inner)) if not handlers or "finally" in ends else ()
    otherwise = draw(_blocks(inner)) if handlers and "else" in ends else ()
    return nodes.Try(draw(_blocks(inner)), tuple(handlers), otherwise, final, span=SPAN)


statements: st.SearchStrategy[Statement] = st.recursive(
    simple, lambda inner: _ifs(inner) | _loops(inner) | _tries(inner), max_leaves=3
)
blocks = _blocks(statements)


@st.composite
def functions(draw: st.DrawFn, name: str) -> nodes.Function:
    called = draw(st.lists(names, max_size=3, unique=True))
    plain = draw(st.integers(0, len(called)))
    parameters = tuple(
        nodes.Parameter(one, None if index < plain else draw(expressions), span=SPAN)
        for index, one in enumerate(called)
    )
    return nodes.Function(name, parameters, draw(blocks), span=SPAN)


@st.composite
def scripts(draw: st.DrawFn) -> nodes.Script:
    """A few functions; sometimes `main` is the statements that stand in none."""
    found = {name: draw(functions(name)) for name in draw(st.lists(st.sampled_from(["main", "helper"]), unique=True))}
    if "main" not in found and (not found or draw(st.booleans())):
        found["main"] = nodes.Function("main", (), draw(blocks), implicit=True, span=SPAN)
    return nodes.Script(found, "generated.rd", "")
