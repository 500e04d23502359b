"""Backoff and jitter as text, "exponential 500ms x3" or "additive 250ms", or as a mapping."""

from typing import get_args

from redrive.notation.durations import read_wait, write_duration
from redrive.notation.errors import notation_error
from redrive.notation.fields import DURATION_FORMS, NOT_ALLOWED, Fields
from redrive.notation.place import similar
from redrive.policies.backoff import Backoff, BackoffKind
from redrive.policies.jitter import Jitter, read_percentage, write_percentage

BACKOFF_KINDS: dict[str, BackoffKind] = {kind: kind for kind in get_args(BackoffKind)}
PLAIN_JITTER = {kind: Jitter(kind) for kind in ("none", "full", "equal", "decorrelated")}
BACKOFF_FORMS = (
    'such as "exponential 500ms", "exponential 500ms x3", "linear 1s", "constant 2s", or {kind, base, factor}'
)
JITTER_FORMS = f"{', '.join(PLAIN_JITTER)}, additive with a duration such as additive 250ms, or proportional 10%"

LEAST_FACTOR, LARGEST_FACTOR = 1.0, 1000.0


def read_backoff(fields: Fields, key: str) -> Backoff | None:
    """Read the backoff that a key sets; None when the key is missing."""
    if key not in fields:
        return None
    value = fields.data[key]
    if isinstance(value, str):
        return _backoff_from_text(value, fields, key)
    if not isinstance(value, dict):
        raise fields.refuse(key, BACKOFF_FORMS)
    inner = Fields(value, fields.place.at(key), ("kind", "base", "factor"))
    inner.require("base", DURATION_FORMS)
    kind = inner.choice("kind", "exponential", BACKOFF_KINDS)
    if "factor" in inner and kind != "exponential":
        raise inner.refuse("factor", "factor with kind exponential only", f"{kind} backoff has no factor")
    return Backoff(
        kind,
        inner.duration("base", 0.0),
        inner.number("factor", 2.0, least=LEAST_FACTOR, most=LARGEST_FACTOR),
    )


def _backoff_from_text(text: str, fields: Fields, key: str) -> Backoff:
    kind, *rest = text.split() or [""]
    if kind not in BACKOFF_KINDS:
        raise fields.refuse(key, BACKOFF_FORMS, f"{NOT_ALLOWED}{similar(kind, tuple(BACKOFF_KINDS))}")
    factor = 2.0
    if len(rest) == 2 and kind == "exponential" and rest[1].startswith("x"):
        factor = _factor(rest.pop().removeprefix("x"), fields, key)
    base = read_wait(rest[0]) if len(rest) == 1 else None
    if base is None:
        raise fields.refuse(key, BACKOFF_FORMS)
    return Backoff(BACKOFF_KINDS[kind], base, factor)


def _factor(text: str, fields: Fields, key: str) -> float:
    digits = text.replace(".", "", 1)
    if digits.isdecimal() and digits.isascii() and LEAST_FACTOR <= float(text) <= LARGEST_FACTOR:
        return float(text)
    raise fields.refuse(key, f"a factor from x{LEAST_FACTOR:g} to x{LARGEST_FACTOR:g}")


def read_jitter(fields: Fields, key: str) -> Jitter | None:
    """Read the jitter that a key sets; None when the key is missing."""
    if key not in fields:
        return None
    value = fields.data[key]
    if isinstance(value, dict):
        inner = Fields(value, fields.place.at(key), ("additive",))
        inner.require("additive", DURATION_FORMS)
        return Jitter("additive", inner.duration("additive", 0.0))
    if isinstance(value, str):
        if value in PLAIN_JITTER:
            return PLAIN_JITTER[value]
        word, _, amount = value.partition(" ")
        if word == "additive" and (seconds := read_wait(amount)) is not None:
            return Jitter("additive", seconds)
        if word == "proportional" and (fraction := read_percentage(amount)) is not None:
            return Jitter("proportional", fraction)
        known = (*PLAIN_JITTER, "additive", "proportional")
        raise fields.refuse(key, JITTER_FORMS, f"{NOT_ALLOWED}{similar(value, known)}")
    raise fields.refuse(key, JITTER_FORMS)


def write_backoff(backoff: Backoff, key: str) -> str:
    if backoff.kind not in BACKOFF_KINDS:
        raise notation_error("cannot be written", key=key, value=backoff.kind, allowed=", ".join(BACKOFF_KINDS))
    factor = f" x{write_number(backoff.factor)}" if backoff.kind == "exponential" and backoff.factor != 2 else ""
    return f"{backoff.kind} {write_duration(backoff.base)}{factor}"


def write_jitter(jitter: Jitter, key: str) -> str:
    if jitter.kind == "additive":
        return f"additive {write_duration(jitter.amount)}"
    if jitter.kind == "proportional":
        return f"proportional {write_percentage(jitter.amount)}"
    if jitter.kind not in PLAIN_JITTER:
        raise notation_error("cannot be written", key=key, value=jitter.kind, allowed=JITTER_FORMS)
    return jitter.kind


def write_number(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))
