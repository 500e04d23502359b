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
    """Format an attempt's number: "2 of 3", or "5 (2 of 3 since the redrive)".

    number: counted since the flow began. counted: since the last redrive, which renews the allowance.
    """
    if allowed is None:
        return str(number)
    return f"{number} of {allowed}" if number == counted else f"{number} ({counted} of {allowed} since the redrive)"


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun: 1 step, 2 steps."""
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
