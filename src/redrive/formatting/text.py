"""Summarize values, calls and errors, and format counts."""

import msgspec

from redrive.failures.redaction import redact
from redrive.failures.secret_names import names_a_secret

LONGEST_CALL = 300
LONGEST_ARGUMENT = 80
LONGEST_SUMMARY = 300
LONGEST_ERROR = 300

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def summarize(text: str, longest: int = LONGEST_SUMMARY) -> str:
    """Return the text without secrets, on one line, cut to `longest` characters."""
    return redact(text, longest)


def summarize_call(arguments: str) -> str:
    """Format a JSON object as the arguments of a call: user="u1", password=***."""
    try:
        fields = _FIELDS.decode(arguments)
    except msgspec.MsgspecError:
        return redact(arguments, LONGEST_CALL)
    shown: list[str] = []
    room = LONGEST_CALL
    for name, raw in fields.items():
        value = "***" if names_a_secret(name) else summarize(bytes(raw).decode(), LONGEST_ARGUMENT)
        argument = f"{redact(name, LONGEST_ARGUMENT)}={value}"
        room -= len(argument)
        if room < 0:
            shown.append(f"… {len(fields) - len(shown)} more")
            break
        shown.append(argument)
    return ", ".join(shown)


def format_error(error_type: str, message: str) -> str:
    """Format an error as `Type: message`; built-in and redrive's own types are shown without their module."""
    name = error_type.removeprefix("builtins.")
    if name.startswith("redrive."):
        name = name.rpartition(".")[2]
    return redact(f"{name}: {message}" if message else name, LONGEST_ERROR)


def format_attempt_number(number: int, counted: int, allowed: int | None) -> str:
    """Format an attempt's number: "2 of 3", or "5 (counted as 2 of 3)".

    number: since the flow began. counted: since the last redrive, which renews the allowance, and without attempts that
    were lost with their worker.
    """
    if allowed is None:
        return str(number)
    return f"{number} of {allowed}" if number == counted else f"{number} (counted as {counted} of {allowed})"


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun: 1 step, 2 steps."""
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def terminal_text(text: str) -> str:
    """Return the text with escapes for what would control a terminal or hide from its reader; line breaks stay.

    That is all of Unicode's control and format characters: escape sequences, also of one character (U+009B), what
    reverses the direction of text (U+202E), and what has no width.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else _escape(one) for one in text)


def terminal_json(text: str) -> str:
    """Return a JSON text with the same characters escaped as JSON does, so that its value stays the same."""
    if text.isprintable():
        return text
    # Outside of strings, JSON has none of them but white space.
    return "".join(one if one.isprintable() or one in "\n\r\t" else _escape_json(one) for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _escape_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
