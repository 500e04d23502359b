"""The names and patterns of secrets that users add to those that redaction knows."""

import re
from collections.abc import Iterable, Iterator

MOST_NAMES = 200
MOST_PATTERNS = 50
LONGEST_PATTERN = 200
_LONGEST_REPEAT = 256
"""What `+`, `*` and `{3,}` stand for at most; with it, a search takes time in proportion to the text."""

WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
"""The words of a name: X-Api-Key, apiKey and api_key are the same two."""

# One character or set, and how often it may come. Groups and alternatives could make a search slow.
_PART = re.compile(
    r"(?P<what>\\[dwsDWS]|\\[^\w\s]|\[(?:\\.|[^\]\\\[])+\]|[^\\\[\](){}|?*+^$])"
    r"(?P<repeat>[?*+]|\{(?P<least>[0-9]{1,3})(?P<comma>,(?P<most>[0-9]{1,3})?)?\})?"
)
_PATTERN_HELP = (
    "use characters, sets such as [A-Z0-9] and \\d, and the repeats ?, *, +, {3} and {3,9}; "
    "no groups and no alternatives: pass several patterns"
)


class AddedSecrets:
    """What `hide_secrets` added; the same for the whole process."""

    def __init__(self) -> None:
        self.names: frozenset[tuple[str, ...]] = frozenset()
        """Each as its words, in small letters."""
        self.patterns: tuple[re.Pattern[str], ...] = ()

    def add(self, names: Iterable[str], patterns: Iterable[str]) -> None:
        """Add all of them, or raise ValueError and add none."""
        new_names = self.names | {_read_name(name) for name in names}
        new_patterns = dict.fromkeys((*self.patterns, *(_read_pattern(pattern) for pattern in patterns)))
        if len(new_names) > MOST_NAMES:
            raise ValueError(f"names: {len(new_names)} are too many; use at most {MOST_NAMES}")
        if len(new_patterns) > MOST_PATTERNS:
            raise ValueError(f"patterns: {len(new_patterns)} are too many; use at most {MOST_PATTERNS}")
        self.names, self.patterns = new_names, tuple(new_patterns)

    def clear(self) -> None:
        self.names, self.patterns = frozenset(), ()

    def has_name(self, words: list[str]) -> bool:
        """Whether one of the names is among these words, in this order and without others between."""
        return any(
            tuple(words[at : at + len(name)]) == name for name in self.names for at in range(len(words) - len(name) + 1)
        )

    def match(self, text: str) -> Iterator["re.Match[str]"]:
        for pattern in self.patterns:
            yield from pattern.finditer(text)


ADDED = AddedSecrets()


def _read_name(name: str) -> tuple[str, ...]:
    words = tuple(word.lower() for word in re.findall(WORDS, name)) if isinstance(name, str) else ()
    if not words or len(name) > 80:
        raise ValueError(f"names: {name!r:.100} is not a name; use the name of a field, such as 'iban' or 'tax_number'")
    return words


def _read_pattern(pattern: str) -> "re.Pattern[str]":
    """Compile the pattern with repeats that give nothing back, so that no text makes the search slow."""
    shown = f"patterns: {pattern!r:.100}"
    if not isinstance(pattern, str) or not pattern or len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"{shown} is not a pattern; use 1 to {LONGEST_PATTERN} characters")
    parts: list[str] = []
    least_length = position = 0
    while position < len(pattern):
        part = _PART.match(pattern, position)
        if part is None:
            raise ValueError(f"{shown} is not allowed from {pattern[position:][:20]!r} on; {_PATTERN_HELP}")
        position = part.end()
        least, most = _bounds(part)
        if not least <= most <= _LONGEST_REPEAT:
            raise ValueError(f"{shown}: {part[0]!r} is not allowed; repeat at most {_LONGEST_REPEAT} times")
        least_length += least
        if not parts and most > 1:
            # A repeat at the beginning is tried once for each run of its characters, not at each of them.
            parts.append(f"(?<!{part['what']})")
        parts.append(f"{part['what']}{{{least},{most}}}+")
    if least_length < 3:
        raise ValueError(f"{shown} matches fewer than 3 characters, and so nearly everything; write a longer one")
    try:
        return re.compile("".join(parts), re.ASCII)
    except re.error as error:
        raise ValueError(f"{shown} is not allowed: {error}; {_PATTERN_HELP}") from None


def _bounds(part: "re.Match[str]") -> tuple[int, int]:
    """Return how often the part comes at least and at most."""
    match part["repeat"]:
        case None:
            return 1, 1
        case "?":
            return 0, 1
        case "*":
            return 0, _LONGEST_REPEAT
        case "+":
            return 1, _LONGEST_REPEAT
    least = int(part["least"])
    if not part["comma"]:
        return least, least
    return least, int(part["most"]) if part["most"] else _LONGEST_REPEAT
