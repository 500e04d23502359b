"""One way to lay out a script: four spaces, at most 100 columns where brackets allow it. Every comment stays."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from redrive.flows.scripts.errors import Problems
from redrive.flows.scripts.joining import Group, Piece, joined_flat, pieces_of
from redrive.flows.scripts.layout import Line, lines_of
from redrive.flows.scripts.parsing import grammar, normal_text, parse

if TYPE_CHECKING:
    from lark import Token

WIDTH = 100
STEP = 4
_MOST_BROKEN = 8
"""Brackets of one line that are broken because it is long."""


def format_script(text: str, source: str = "<script>") -> str:
    """The text in its one layout, which means the same; ScriptError when it is not a script."""
    parse(text, source)
    text = normal_text(text)
    return _Formatter(text, source).format()


@dataclass(slots=True)
class _Entry:
    """A comment of its own, or a statement, with the lines it is written on."""

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
    """How far each open block is indented in the text."""

    def format(self) -> str:
        written = self.text.split("\n")
        tokens = list(grammar().lex(self.text, dont_ignore=True))
        comments = [token for token in reversed(tokens) if token.type == "COMMENT"]
        for line in lines_of(tokens, self.text, Problems(self.source, written)):
            first = line.tokens[0]
            at_end = first.type == "_END"
            self._own_lines(self._taken(comments, len(self.text) if at_end else first.start_pos or 0), line, written)
            if not at_end:
                self._statement(line, comments, written)
        return "".join(f"{one}\n" for one in self._lines())

    def _taken(self, comments: "list[Token]", until: int) -> "list[Token]":
        taken: list[Token] = []
        while comments and (comments[-1].start_pos or 0) < until:
            taken.append(comments.pop())
        return taken

    def _own_lines(self, comments: "list[Token]", line: Line, written: list[str]) -> None:
        """Comments between two statements: in the block of the next one, or of one that ends here."""
        after = len(self.widths) - 1
        level = after + 1 if line.opens else after - line.closes
        for comment in comments:
            width = (comment.column or 1) - 1
            deepest = max((one for one in range(level + 1, after + 1) if self.widths[one] <= width), default=level)
            self._add(_Entry([_comment(comment)], deepest, _is_blank(written, comment.line or 1), is_comment=True))
        if line.opens:
            self.widths.append((line.tokens[0].column or 1) - 1)
        del self.widths[level + 1 :]

    def _statement(self, line: Line, comments: "list[Token]", written: list[str]) -> None:
        *tokens, end = line.tokens
        inside = self._taken(comments, end.start_pos or 0)
        trailing = self._taken(comments, _end_of_line(self.text, end.start_pos or 0))
        level = len(self.widths) - 1
        lines = _laid_out(pieces_of(tokens, inside), level * STEP)
        if trailing:
            lines[-1] += f"  {_comment(trailing[0])}"
        first = tokens[0]
        self._add(_Entry(lines, level, _is_blank(written, first.line or 1), begins_function=first.type == "FN"))

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


def _comment(token: "Token") -> str:
    text = str(token).rstrip()
    return text if text[1:2] in ("", " ", "!", "#") else f"# {text[1:]}"


def _is_blank(written: list[str], line: int) -> bool:
    """Whether the line before this one is empty."""
    return line > 1 and not written[line - 2].strip()


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _laid_out(pieces: list[Piece], indentation: int) -> list[str]:
    """The lines of a statement or of an element; the first one without its indentation."""
    broken = _groups_to_break(pieces, indentation)
    lines: list[str] = []
    held: list[Piece] = []
    """What goes on the next line."""
    for index, piece in enumerate(pieces):
        held.append(piece)
        if isinstance(piece, Group) and index in broken:
            held[-1] = piece.begun()
            lines += [_one_line(held, indentation), *_elements(piece, indentation + STEP)]
            held = [piece.ended(indentation)]
    return [*lines, _one_line(held, indentation)]


def _one_line(pieces: list[Piece], indentation: int) -> str:
    """Of pieces that go together; a policy with comments in it has lines of its own, one step further in."""
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
    """The brackets whose elements get lines of their own: those with comments; and the longest ones, if need be."""
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
