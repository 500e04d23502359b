"""tenacity's wait functions as backoff, jitter and cap. In both libraries the first wait has exponent 0."""

from typing import Any

import msgspec

from redrive.notation.durations import SHORTEST_DURATION, write_duration
from redrive.notation.fields import Fields
from redrive.notation.formats.tenacity_arguments import Arguments
from redrive.notation.python_values import Call, Combined
from redrive.notation.reading import NamedWarning
from redrive.notation.wait_text import LARGEST_FACTOR, LEAST_FACTOR
from redrive.policies.backoff import LONGEST_WAIT, Backoff
from redrive.policies.jitter import FULL_JITTER, NO_JITTER, Jitter

_WAITS = (
    "wait_fixed, wait_none, wait_random, wait_exponential, wait_random_exponential, wait_exponential_jitter, "
    "wait_incrementing, and one of them + wait_random or wait_fixed"
)


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """A wait function as backoff, jitter and cap."""

    backoff: Backoff = Backoff("constant", 0.0)
    jitter: Jitter = NO_JITTER
    cap: float | None = None


def read_wait(wait: Any, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    """Read a wait expression; when the result is not exact, a warning says how it differs."""
    if isinstance(wait, Combined) and wait.operator == "+":
        return _sum(wait.parts, fields, warnings)
    if not isinstance(wait, Call):
        raise fields.refuse("wait", _WAITS)
    name = wait.name.rpartition(".")[2] if wait.name.startswith("tenacity.") else wait.name
    if name == "wait_combine" and wait.arguments:
        return _sum(wait.arguments, fields, warnings)
    if name not in _READERS:
        raise fields.refuse("wait", _WAITS, f"{name} cannot be read")
    parameters, reader = _READERS[name]
    return reader(Arguments(wait, fields, "wait", parameters), fields, warnings)


def _sum(parts: tuple[Any, ...], fields: Fields, warnings: list[NamedWarning]) -> Waits:
    """Add up waits: fixed ones are summed, random ones become additive jitter, and at most one may grow."""
    read = [read_wait(part, fields, warnings) for part in parts]
    growing = [one for one in read if one.backoff.kind != "constant"]
    if len(growing) > 1 or any(one.jitter.kind == "full" and one in growing for one in read):
        raise fields.refuse("wait", _WAITS, "these waits cannot be added up")
    fixed = spread = 0.0
    for one in read:
        if one in growing:
            spread += one.jitter.amount
        elif one.jitter.kind == "full":
            spread += one.backoff.base
        else:
            fixed += one.backoff.base
            spread += one.jitter.amount
    if growing and fixed:
        raise fields.refuse("wait", _WAITS, "a fixed wait cannot be added to a growing one")
    jitter = Jitter("additive", min(spread, LONGEST_WAIT)) if spread else NO_JITTER
    if not growing:
        return Waits(backoff=Backoff("constant", min(fixed, LONGEST_WAIT)), jitter=jitter)
    if growing[0].cap is not None and spread:
        text = f"the cap of {write_duration(growing[0].cap)} applies after the random part is added, not before"
        warnings.append(fields.warning("cap-after-jitter", "wait", text))
    return Waits(backoff=growing[0].backoff, jitter=jitter, cap=growing[0].cap)


def _fixed(given: Arguments, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    return Waits(backoff=Backoff("constant", given.seconds("wait", None)))


def _none(given: Arguments, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    return Waits()


def _random(given: Arguments, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    low, high = given.seconds("min", 0.0), given.seconds("max", 1.0)
    if high < low:
        low, high = high, low
    if high - low < SHORTEST_DURATION:
        return Waits(backoff=Backoff("constant", high))
    if low == 0:
        return Waits(backoff=Backoff("constant", high), jitter=FULL_JITTER)
    return Waits(backoff=Backoff("constant", low), jitter=Jitter("additive", high - low))


def _incrementing(given: Arguments, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    start, step = given.seconds("start", 0.0), given.seconds("increment", 100.0)
    cap = _cap(given)
    if cap == 0:
        return Waits()
    if step == 0:
        return Waits(backoff=Backoff("constant", start), cap=cap)
    base = max(start, step)
    if start != step:
        text = (
            f"waits that start at {write_duration(start)} and grow by {write_duration(step)} "
            f"are read as {write_duration(base)} times 1, 2, 3, ..."
        )
        warnings.append(fields.warning("start-differs", "wait", text))
    return Waits(backoff=Backoff("linear", base), cap=cap)


def _exponential(given: Arguments, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    return _growing(given, given.seconds("multiplier", 1.0), NO_JITTER, fields, warnings)


def _random_exponential(given: Arguments, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    least = given.seconds("min", 0.0)
    if least:
        text = f"waits are drawn from 0, not from {write_duration(least)}"
        warnings.append(fields.warning("minimum-wait", "wait", text))
    given.values.pop("min", None)
    return _growing(given, given.seconds("multiplier", 1.0), FULL_JITTER, fields, warnings)


def _exponential_jitter(given: Arguments, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    if "initial" in given.values and "multiplier" in given.values:
        raise fields.refuse("wait", "initial or multiplier, not both")
    spread = given.seconds("jitter", 1.0)
    jitter = Jitter("additive", spread) if spread else NO_JITTER
    base = given.seconds("multiplier", given.seconds("initial", 1.0))
    return _growing(given, base, jitter, fields, warnings)


def _growing(given: Arguments, base: float, jitter: Jitter, fields: Fields, warnings: list[NamedWarning]) -> Waits:
    factor = given.number("exp_base", 2.0, least=LEAST_FACTOR, most=LARGEST_FACTOR)
    least, cap = given.seconds("min", 0.0), _cap(given)
    if cap is not None and cap <= least:
        return Waits(backoff=Backoff("constant", least))
    if least > base and base > 0:
        text = (
            f"tenacity waits {write_duration(least)} until its backoff has grown beyond that; "
            f"here the backoff begins at {write_duration(least)} and grows at once"
        )
        warnings.append(fields.warning("minimum-wait", "wait", text))
    if base == 0:
        return Waits(backoff=Backoff("constant", least), jitter=jitter, cap=cap)
    return Waits(backoff=Backoff("exponential", max(base, least), factor), jitter=jitter, cap=cap)


def _cap(given: Arguments) -> float | None:
    cap = given.seconds("max", LONGEST_WAIT)
    return None if cap >= LONGEST_WAIT else cap


_READERS = {
    "wait_fixed": (("wait",), _fixed),
    "wait_none": ((), _none),
    "wait_random": (("min", "max"), _random),
    "wait_incrementing": (("start", "increment", "max"), _incrementing),
    "wait_exponential": (("multiplier", "max", "exp_base", "min"), _exponential),
    "wait_random_exponential": (("multiplier", "max", "exp_base", "min"), _random_exponential),
    "wait_full_jitter": (("multiplier", "max", "exp_base", "min"), _random_exponential),
    "wait_exponential_jitter": (("initial", "max", "exp_base", "jitter", "min", "multiplier"), _exponential_jitter),
}
