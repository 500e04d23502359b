"""Load YAML, and JSON as a subset of it, as plain data with the line and column of every key.

Stricter than YAML: no duplicate keys, anchors, aliases or tags; one document; limited size and depth.
"""

from typing import Any

import msgspec
import yaml

from redrive.errors import NotationError
from redrive.notation.errors import Path, notation_error
from redrive.notation.place import Place, Position
from redrive.notation.scalars import plain_scalar

LARGEST_TEXT = 256 * 1024
"""The longest document that is read, in characters."""
DEEPEST = 32
"""The deepest nesting of lists and mappings."""

_LONG_TEXT = 32 * 1024
_NOT_IN_YAML = {"\t": " ", "\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class Document(msgspec.Struct, frozen=True):
    """A loaded text."""

    data: Any
    place: Place
    """The top of the document."""


def check_size(text: str, source: str, longest: int = LARGEST_TEXT, what: str = "a policy") -> None:
    """Raise NotationError when a text is too long."""
    if len(text) > longest:
        raise notation_error(
            f"the text has {len(text)} characters, which is too long for {what}",
            allowed=f"at most {longest} characters",
            source=source,
        )


def load_document(
    text: str, source: str = "<text>", *, longest: int = LARGEST_TEXT, what: str = "a policy"
) -> Document:
    """Load YAML or JSON. NotationError with line and column when it is neither, or is not plain data.

    `longest`: the limit in characters. `what`: what the text should be, for error messages.
    """
    check_size(text, source, longest, what)
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        text = _json_for_yaml(text)
    builder = _Builder(source)
    try:
        # Events, not nodes: depth is checked before anything recurses into it.
        for event in yaml.parse(text, Loader=_loader_for(text)):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, source, what) from None
    except yaml.reader.ReaderError as error:
        line, column = _line_and_column(text, error.position)
        code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
        raise _syntax(f"the character U+{code:04X} is not allowed", line, column, source, _in(what)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        if isinstance(error, NotationError):
            raise
        # The YAML scanner converts some escapes and version numbers without validating them.
        raise _syntax(f"not readable: {error}", 1, 1, source, _in(what)) from None
    return Document(builder.data, Place(source, builder.positions))


class _Open:
    """A list or mapping under construction."""

    __slots__ = ("awaits", "first_line", "key", "path", "value")

    def __init__(self, value: dict[Any, Any] | list[Any], path: Path) -> None:
        self.value = value
        self.path = path
        self.key = ""
        self.first_line: int | None = None
        """The line of the first occurrence, when the current key is a duplicate."""
        self.awaits = "key" if isinstance(value, dict) else "item"


class _Builder:
    """Builds the data from parser events."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.data: Any = None
        self.positions: dict[Path, Position] = {}
        self._open: list[_Open] = []
        self._documents = 0

    def take(self, event: Any) -> None:
        at = Position(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._refuse("a second document begins here", at, "one document")
        elif isinstance(event, yaml.AliasEvent):
            raise self._refuse(f"the alias '*{event.anchor}' is not supported", at, "plain values, written out")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._take_value(event, at)

    def _take_value(self, event: Any, at: Position) -> None:
        if event.anchor is not None:
            raise self._refuse(f"the anchor '&{event.anchor}' is not supported", at, "plain values, written out")
        if event.tag is not None:
            raise self._refuse(f"the tag '{event.tag}' is not supported", at, "plain values, without tags")
        if isinstance(event, yaml.ScalarEvent):
            # The C parser reports "" for no style.
            plain = event.implicit[0] and not event.style
            self._put(plain_scalar(event.value) if plain else _joined(event.value), at)
            return
        if len(self._open) >= DEEPEST:
            raise self._refuse("lists and mappings are nested too deeply", at, f"at most {DEEPEST} levels")
        value: dict[Any, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        path = self._put(value, at)
        self._open.append(_Open(value, path))

    def _put(self, value: Any, at: Position) -> Path:
        if not self._open:
            self.data = value
            self.positions[()] = at
            return ()
        inside = self._open[-1]
        if isinstance(inside.value, list):
            inside.value.append(value)
            path = (*inside.path, len(inside.value) - 1)
            self.positions[path] = at
            return path
        if inside.awaits == "key":
            inside.key = self._key(value, inside, at)
            inside.awaits = "value"
            return inside.path
        path = (*inside.path, inside.key)
        if inside.first_line is not None:
            shown = (
                value if not isinstance(value, dict | list) else f"a {'mapping' if isinstance(value, dict) else 'list'}"
            )
            problem = f"duplicate key, first used on line {inside.first_line}"
            raise Place(self.source, self.positions, path).refuse(shown, problem, "each key once")
        inside.value[inside.key] = value
        inside.awaits = "key"
        return path

    def _key(self, value: Any, inside: _Open, at: Position) -> str:
        if isinstance(value, dict | list):
            raise self._refuse("a list or mapping is used as a key", at, "names as keys")
        key = value if isinstance(value, str) else "null" if value is None else str(value)
        path = (*inside.path, key)
        inside.first_line = self.positions[path].line if key in inside.value else None
        self.positions[path] = at
        return key

    def _refuse(self, problem: str, at: Position, allowed: str) -> NotationError:
        return _syntax(problem, at.line, at.column, self.source, allowed)


def _joined(text: str) -> str:
    """Combine surrogate pairs, as which JSON escapes characters beyond U+FFFF; YAML leaves them unpaired."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _json_for_yaml(text: str) -> str:
    """Rewrite what JSON allows and YAML does not: tabs between values, and Unicode line breaks inside strings."""
    if not any(char in text for char in _NOT_IN_YAML):
        return text
    chars: list[str] = []
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        odd = _NOT_IN_YAML.get(char)
        chars.append(char if odd is None or quoted == (char == "\t") else odd)
    return "".join(chars)


def _loader_for(text: str) -> Any:
    """Choose the C parser for long texts, if there is one; the Python parser has the clearer messages."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader) if len(text) > _LONG_TEXT else yaml.SafeLoader


def _in(what: str) -> str:
    return f"{what} in YAML or JSON"


def _unreadable(error: yaml.MarkedYAMLError, source: str, what: str) -> NotationError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = str(error.problem or error.context or "invalid syntax")
    if "'\\t'" in problem:
        problem = "YAML does not allow a tab here; use spaces"
    return _syntax(problem, line, column, source, _in(what))


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def _syntax(problem: str, line: int, column: int, source: str, allowed: str) -> NotationError:
    return notation_error(f"{problem} (column {column})", allowed=allowed, source=source, line=line, column=column)
