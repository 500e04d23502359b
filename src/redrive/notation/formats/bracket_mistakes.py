"""Guesses the right spelling of a bracket that cannot be read, for the message about it."""

import re
from collections.abc import Sequence

LONGEST = 400
"""Characters of a text that is worth a guess."""

_BRACKET = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]")
_NAME = re.compile(r"status\s*:\s*[\w-]+|(?<![\w.])(?:[A-Za-z_][\w.]*|\d{3})(?![\w.])")
_ARROW = re.compile(r"\s*(?:->|=>|→)\s*")


def corrected(text: str, keys: Sequence[str]) -> str:
    """Return the brackets of the text as they were probably meant; empty when there is nothing to correct.

    keys: the keys that brackets have. The caller reads the answer to see whether it is right.
    """
    if len(text) > LONGEST:
        return ""
    brackets = [match[1] for match in _BRACKET.finditer(text)]
    fixed = " ".join(_bracket(one, "|".join(keys)) for one in brackets)
    return fixed if fixed != " ".join(f"[{one}]" for one in brackets) else ""


def _bracket(body: str, keys: str) -> str:
    parts = _ARROW.split(body.replace(";", ","))
    if len(parts) == 1:
        return f"[{_without_arrow(parts[0], keys)}]"
    if len(parts) == 2 and re.match(rf"\s*(?:{keys})\b", parts[0]) and not re.match(rf"\s*(?:{keys})\b", parts[1]):
        # The other way round: [retry: 3 -> NetworkError].
        parts.reverse()
    failures, answers = parts[0], parts[1:]
    brackets = []
    for index, answer in enumerate(answers):
        following = ""
        if index < len(answers) - 1:
            # Several arrows in one bracket: what comes before the next one belongs to a bracket of its own.
            answer, _, following = answer.rpartition(",")
        brackets.append(f"[{_failures(failures)} -> {_answer(answer, keys)}]")
        failures = following
    return " ".join(brackets)


def _without_arrow(body: str, keys: str) -> str:
    """[NetworkError, retry: 3] and [NetworkError: retry: 3] lack their arrow."""
    match = re.match(rf"\s*(?P<names>[^:=]*?)\s*[,:]\s*(?P<answer>(?:{keys})\b.*)", body, re.DOTALL)
    if match and not re.search(rf"\b(?:{keys})\b", match["names"]):
        return f"{_failures(match['names'])} -> {_answer(match['answer'], keys)}"
    return _answer(body, keys)


def _failures(text: str) -> str:
    """The names before an arrow, in parentheses where there are several."""
    listed = re.sub(r"\b(?:or|and)\b", ",", text)
    names = [re.sub(r"\s", "", name) for name in _NAME.findall(listed)]
    if not names or re.search(r"[^\s,|&+()\[\]\"']", _NAME.sub("", listed)):
        # Something else is wrong with it, which must not get lost.
        return text.strip()
    named = [f"status:{name}" if name.isdigit() else name for name in names]
    return named[0] if len(named) == 1 else f"({', '.join(named)})"


def _answer(text: str, keys: str) -> str:
    """The keys and values: [retry=3], [retry 3], [retry: 3 backoff: 2s] and [3]."""
    text = re.sub(rf"\b({keys})\s*=\s*", r"\1: ", text.strip())
    text = re.sub(rf"\b({keys})\s+(?=\d)", r"\1: ", text)
    text = re.sub(rf"(?<=[^\s,:(])\s+(?=(?:{keys})\s*:)", ", ", text)
    return f"retry: {text}" if text.isdigit() else text
