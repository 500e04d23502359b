"""Formats scripts: four spaces, at most 100 columns where brackets allow it. Every comment is kept."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from redrive.expressions.tokens import Token
from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.joining import Group, Piece, joined_flat, pieces_of
from redrive.flows.scripts.layout import Line, lines_of, script_tokens
from redrive.flows.scripts.parsing import normal_text, parse

WIDTH = 100
STEP = 4
_MOST_BROKEN = 8
"""Brackets of one long line that are broken up."""


def format_script(text: str, source: str = "<script>") -> str:
    """The formatted text, which means the same; ScriptError when it is not a script."""
    parse(text, source)
    return _Formatter(normal_text(text), source).format()


@dataclass(slots=True)
class _Entry:
    """A statement, or a comment on a line of its own."""

    lines: list[str]
    level: int
    blank_before: bool
    is_comment: bool = False
    begins_function: bool = False


@dataclass(slots=True)
class _Formatter:
    text: str
    source: str
    entries: list[_Entry] = field(default_factory=list)
    widths: list[int] = field(default_factory=lambda: [0])
    """The indentation of each open block in the text."""

    def format(self) -> str:
        written = self.text.split("\n")
        tokens = list(script_tokens(self.text))
        comments = [token for token in reversed(tokens) if token.kind == "comment"]
        for line in lines_of(tokens, self.text, Problems(self.source, written)):
            first = line.tokens[0]
            self._own_lines(_taken(comments, first.start), line.level, written)
            del self.widths[line.level :]
            self.widths.append(first.column - 1)
            self._statement(line, comments, written)
        self._own_lines(_taken(comments, len(self.text)), 0, written)
        return "".join(f"{one}\n" for one in self._lines())

    def _own_lines(self, comments: list[Token], level: int, written: list[str]) -> None:
        """Comments between two statements: in the block of the next one, or in a deeper one that ends here."""
        for comment in comments:
            deeper = (one for one in range(level + 1, len(self.widths)) if self.widths[one] < comment.column)
            blank = _is_blank(written, comment.line)
            self._add(_Entry([_comment(comment)], max(deeper, default=level), blank, is_comment=True))

    def _statement(self, line: Line, comments: list[Token], written: list[str]) -> None:
        *tokens, end = line.tokens
        inside = _taken(comments, end.start)
        trailing = _taken(comments, _end_of_line(self.text, end.start))
        lines = _laid_out(pieces_of(tokens, inside), line.level * STEP)
        if trailing:
            lines[-1] += f"  {_comment(trailing[0])}"
        blank = _is_blank(written, tokens[0].line)
        self._add(_Entry(lines, line.level, blank, begins_function=tokens[0].kind == "fn"))

    def _add(self, entry: _Entry) -> None:
        self.entries.append(entry)
        if entry.begins_function:
            # A blank line before a function, and before the comments that belong to it.
            at = len(self.entries) - 1
            while (
                at
                and self.entries[at - 1].is_comment
                and self.entries[at - 1].level == 0
                and not self.entries[at].blank_before
            ):
                at -= 1
            self.entries[at].blank_before = True

    def _lines(self) -> Iterator[str]:
        level = -1
        for entry in self.entries:
            if entry.blank_before and entry.level <= level:
                yield ""
            for index, line in enumerate(entry.lines):
                yield f"{' ' * (entry.level * STEP)}{line}" if index == 0 and line else line
            level = entry.level


def _taken(comments: list[Token], until: int) -> list[Token]:
    """Take the comments that begin before a position; the first ones are at the end of the list."""
    taken: list[Token] = []
    while comments and comments[-1].start < until:
        taken.append(comments.pop())
    return taken


def _comment(token: Token) -> str:
    text = token.text.rstrip()
    return text if text[1:2] in ("", " ", "!", "#") else f"# {text[1:]}"


def _is_blank(written: list[str], line: int) -> bool:
    """Whether the line before this one is empty."""
    return line > 1 and not written[line - 2].strip()


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _laid_out(pieces: list[Piece], indentation: int) -> list[str]:
    """The lines of a statement or an element, the first one without its indentation."""
    broken = _groups_to_break(pieces, indentation)
    lines: list[str] = []
    held: list[Piece] = []
    """What goes onto the next line."""
    for index, piece in enumerate(pieces):
        held.append(piece)
        if isinstance(piece, Group) and index in broken:
            held[-1] = piece.begun()
            lines += [_one_line(held, indentation), *_elements(piece, indentation + STEP)]
            held = [piece.ended(indentation)]
    return [*lines, _one_line(held, indentation)]


def _one_line(pieces: list[Piece], indentation: int) -> str:
    """Pieces on one line; a policy with comments has lines of its own, indented by one step."""
    first, *more = joined_flat(pieces).split("\n")
    margins = (indentation if line[0] == "]" else indentation + STEP for line in more)
    return "\n".join((first, *(" " * margin + line for margin, line in zip(margins, more, strict=True))))


def _elements(group: Group, indentation: int) -> Iterator[str]:
    """Each element on lines of its own, with its comments."""
    margin = " " * indentation
    for index, element in enumerate(group.elements):
        yield from (f"{margin}{_comment(one)}" for one in element.before)
        lines = _laid_out(element.pieces, indentation)
        lines[0] = margin + lines[0]
        if group.separated and (index + 1 < len(group.elements) or group.may_end_with_comma):
            lines[-1] += ","
        lines[-1] += "".join(f"  {_comment(one)}" for one in element.after)
        yield from lines
    yield from (f"{margin}{_comment(one)}" for one in group.at_end)


def _groups_to_break(pieces: list[Piece], indentation: int) -> set[int]:
    """The brackets whose elements get lines of their own: those with comments, and the longest of lines too long."""
    groups = {index: one for index, one in enumerate(pieces) if isinstance(one, Group) and one.breakable}
    broken = {index for index, one in groups.items() if one.has_comments}
    while len(broken) < _MOST_BROKEN:
        ends = [-1, *sorted(broken), len(pieces)]
        too_long = [
            (begin, end)
            for begin, end in pairwise(ends)
            if indentation + len(joined_flat(pieces[begin + 1 : end])) + 1 > WIDTH
        ]
        longest = [
            max(inside, key=lambda index: len(groups[index].flat))
            for begin, end in too_long
            if (inside := [index for index in groups if begin < index < end])
        ]
        if not longest:
            break
        broken.update(longest)
    return broken
