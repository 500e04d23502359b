"""What scripts add to expressions: durations, action calls with their policies, and `spread`."""

from redrive.errors import DurationError, NotationError
from redrive.expressions import nodes as expressions
from redrive.expressions.nodes import Node
from redrive.expressions.parser import AN_OPERATOR, Dialect, Parser, Unreadable
from redrive.expressions.tokens import Token
from redrive.failures.duration import read_duration
from redrive.flows.scripts import nodes
from redrive.flows.scripts.errors import Problems
from redrive.notation import errors as notation_errors
from redrive.notation.formats.brackets import read_text
from redrive.notation.place import Position


class CallSyntax:
    """Reads the calls of one script; what is wrong with a policy or a duration is added to its problems."""

    def __init__(self, problems: Problems) -> None:
        self.dialect = Dialect({"@": self.action_call, "duration": self._duration})
        self._problems = problems

    def value(self, parser: Parser) -> Node:
        """An expression or a `spread`."""
        at = parser.token.at
        if not parser.take("spread"):
            return parser.expression()
        items = parser.expression()
        parser.expect(":", f"':' or {AN_OPERATOR}")
        name = parser.name()
        parser.expect("->")
        return nodes.Spread(items, name.text, self.any_call(parser), at=at)

    def any_call(self, parser: Parser) -> nodes.ActionCall | expressions.Call:
        """A call of an action or a function, and nothing else."""
        begin = parser.index
        if parser.token.kind == "@":
            return self.action_call(parser)
        if [one.kind for one in parser.tokens[begin : begin + 2]] != ["name", "("]:
            raise Unreadable(begin, "a call")
        found = parser.expression()
        if not isinstance(found, expressions.Call):
            raise Unreadable(begin, "a call alone")
        return found

    def dotted_name(self, parser: Parser) -> str:
        """`name` or `module.name`."""
        parts = [parser.name().text]
        while parser.take("."):
            parts.append(parser.name().text)
        return ".".join(parts)

    def _duration(self, parser: Parser) -> Node:
        token = parser.expect("duration")
        try:
            seconds = read_duration(token.text)
        except DurationError as error:
            self._problems.at(token.at, str(error))
            seconds = 0.0
        return nodes.Duration(token.text, seconds, at=token.at)

    def action_call(self, parser: Parser) -> nodes.ActionCall:
        at = parser.expect("@").at
        name = self.dotted_name(parser)
        parser.expect("(")
        named: dict[str, expressions.Argument] = {}

        def argument() -> None:
            if [one.kind for one in parser.tokens[parser.index : parser.index + 2]] != ["name", "="]:
                raise Unreadable(parser.index, message="arguments of an action have names: @action(name=value)")
            parser.argument(named)

        parser.separated(")", argument)
        policy = parser.take("policy")
        return nodes.ActionCall(name, tuple(named.values()), policy and self._policy(policy), at=at)

    def _policy(self, token: Token) -> nodes.PolicyBrackets | None:
        """The brackets of a call; None when they cannot be read, which is reported."""
        source = self._problems.source
        try:
            reading = read_text(token.text, source, Position(token.line, token.column))
        except NotationError as error:
            said = str(error).removeprefix(f"{notation_errors.show_where(error.source, error.line)}: ")
            said = said.replace(f" (column {error.column})", "")
            self._problems.add(error.line or token.line, error.column or token.column, f"policy: {said}")
            return None
        return nodes.PolicyBrackets(token.text, reading, reading.policy, at=token.at)
