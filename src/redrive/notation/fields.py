"""Typed access to the keys of one mapping. Every mistake becomes a NotationError about its key."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from redrive.errors import NotationError, PolicyError
from redrive.failures.matching import Match, as_match
from redrive.notation.durations import read_wait, write_duration
from redrive.notation.errors import Path
from redrive.notation.place import Place, Position, path_as_text, similar
from redrive.notation.reading import NamedWarning, Reading
from redrive.policies.backoff import LONGEST_WAIT
from redrive.policies.decide import SHORTEST_WAIT
from redrive.policies.policy import Policy

T = TypeVar("T")
D = TypeVar("D")

LARGEST_COUNT = 2_147_483_647
"""The largest number of attempts or retries: what a 32-bit database column holds."""
MOST_RULES = 100
"""The most rules in a policy that is read: more are a mistake, and would slow down every decision."""
DURATION_FORMS = f"a duration such as 500ms, 30s, 2m or 1h30m, at most {write_duration(LONGEST_WAIT)}"
NOT_ALLOWED = "not allowed"


class Fields:
    """Reads and validates the keys of one mapping."""

    def __init__(
        self,
        data: Any,
        place: Place,
        known: Sequence[str],
        *,
        renamed: Mapping[str, tuple[str, str]] | None = None,
        internal: Sequence[str] = (),
    ) -> None:
        """`renamed`: old key -> its new name and the lint rule about it. `internal`: keys that users do not write."""
        self.place = place
        self.known = tuple(known)
        if not isinstance(data, Mapping):
            raise place.refuse(data, NOT_ALLOWED, f"a mapping with the keys {', '.join(self.known)}")
        for key, value in data.items():
            if key in self.known or key in internal:
                continue
            if renamed and key in renamed:
                name, rule = renamed[key]
                raise place.at(key).refuse(value, f"no longer a key; write '{name}'", self._keys(), rule=rule)
            raise place.at(str(key)).refuse(value, f"unknown{similar(str(key), self.known)}", self._keys())
        self.data: Mapping[str, Any] = data

    def _keys(self) -> str:
        return ", ".join(self.known)

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def refuse(self, key: str, allowed: str, problem: str = NOT_ALLOWED, *, rule: str = "") -> NotationError:
        return self.place.at(key).refuse(self.data.get(key), problem, allowed, rule=rule)

    def require(self, key: str, allowed: str) -> None:
        if key not in self.data:
            raise self.place.at(key).refuse(None, "missing", allowed)

    def whole(
        self,
        key: str,
        default: D,
        *,
        least: int,
        most: int = LARGEST_COUNT,
        special: Mapping[Any, D] | None = None,
        zero_rule: str = "",
    ) -> int | D:
        """Read a whole number. `special`: other values that are allowed; `zero_rule`: the lint rule about 0."""
        if key not in self.data:
            return default
        value = self.data[key]
        if special and isinstance(value, str | int) and not isinstance(value, bool) and value in special:
            return special[value]
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        others = f", or {' or '.join(str(one) for one in special)}" if special else ""
        allowed = f"a whole number from {least} to {most}{others}"
        if zero_rule and value == 0 and not isinstance(value, bool):
            raise self.refuse(key, allowed, "nothing would ever run; write 1 for one attempt", rule=zero_rule)
        raise self.refuse(key, allowed)

    def number(self, key: str, default: float, *, least: float, most: float) -> float:
        if key not in self.data:
            return default
        value = self.data[key]
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        raise self.refuse(key, f"a number from {least:g} to {most:g}")

    def flag(self, key: str, default: D) -> bool | D:
        if key not in self.data:
            return default
        value = self.data[key]
        if isinstance(value, bool):
            return value
        raise self.refuse(key, "true or false")

    def choice(self, key: str, default: T, options: Mapping[str, T]) -> T:
        if key not in self.data:
            return default
        value = self.data[key]
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, str) and value in options:
            return options[value]
        hint = similar(value, tuple(options)) if isinstance(value, str) else ""
        raise self.refuse(key, ", ".join(options), f"{NOT_ALLOWED}{hint}")

    def duration(self, key: str, default: D, *, zero: bool = True, special: Mapping[str, D] | None = None) -> float | D:
        """Read a duration as seconds. `special`: other values that are allowed, such as "none"."""
        if key not in self.data:
            return default
        value = self.data[key]
        if special and isinstance(value, str) and value in special:
            return special[value]
        seconds = read_wait(value)
        if seconds is not None and (seconds > 0 or zero):
            return seconds
        others = f", or {' or '.join(special)}" if special else ""
        raise self.refuse(key, f"{'' if zero else 'above 0: '}{DURATION_FORMS}{others}")

    def milliseconds(self, key: str, default: int, *, least: int = 0) -> float:
        """Read a whole number of milliseconds as seconds."""
        value = self.whole(key, default, least=least, most=int(LONGEST_WAIT * 1000))
        return value / 1000

    def failures(self, key: str, default: Match) -> Match:
        """Read which failures are meant: one name, status or category, or a list of them."""
        return default if key not in self.data else read_failures(self.data[key], self.place.at(key))

    def warning(self, id: str, key: str, text: str) -> NamedWarning:  # noqa: A002 - the name of the field it fills
        place = self.place.at(key)
        return NamedWarning(id, text, place.key, place.line)

    def zero_wait(self, key: str, base: float, floor: float, retried: bool) -> list[NamedWarning]:
        """Warn, where there are retries, that a wait of zero is lifted to the floor."""
        if base >= SHORTEST_WAIT or not retried:
            return []
        text = f"a wait of zero is lifted to the policy's floor, {write_duration(floor)}"
        return [self.warning("zero-wait", key, text)]

    def policy(self, spelling: Mapping[str, str], **settings: Any) -> Policy:
        """Build the policy; an invalid value becomes an error about the key that set it."""
        try:
            return Policy(**settings)
        except PolicyError as error:
            key = spelling.get(error.field, error.field)
            raise self.place.at(key).refuse(self.data.get(key, error.value), NOT_ALLOWED, error.allowed) from None

    def reading(
        self, notation: str, policy: Policy, spelling: Mapping[str, str], warnings: Sequence[NamedWarning] = ()
    ) -> Reading:
        """Return the result of reading this mapping. `spelling`: policy field -> its key in this notation."""
        written = {field: self.place.at(key).key for field, key in spelling.items() if key in self.data}
        rules: list[Path] = [("rules", index) for index in range(len(policy.rules))] if "rules" in self.data else []
        written |= {path_as_text(path): self.place.at(*path).key for path in rules}
        return Reading(
            policy=policy,
            notation=notation,
            warnings=tuple(warnings),
            written=written,
            positions=positions_of(self.place, [*((key,) for key in self.data), *rules]),
            source=self.place.source,
        )


FAILURE_FORMS = (
    "class names such as ConnectionError, statuses such as status:429 or status:5xx, "
    "transient, permanent, unknown, any, or a list of them"
)


def read_failures(value: Any, place: Place) -> Match:
    """Read which failures are meant: names, statuses, categories; from Python also classes and predicates."""
    if isinstance(value, list | tuple):
        together = Match()
        for index, one in enumerate(value):
            if isinstance(one, list | tuple | Mapping):
                raise place.at(index).refuse(one, NOT_ALLOWED, FAILURE_FORMS)
            together = together | read_failures(one, place.at(index))
        return together
    if isinstance(value, Mapping) or value in ("none", "nothing"):
        raise place.refuse(value, f"{NOT_ALLOWED}; write [] for no failure at all", FAILURE_FORMS)
    try:
        return as_match(value)
    except (TypeError, ValueError):
        raise place.refuse(value, NOT_ALLOWED, FAILURE_FORMS) from None


def positions_of(place: Place, paths: Iterable[Path]) -> dict[str, Position]:
    """Return key -> position for the given paths below a place; "" is the place itself."""
    places = [place.at(*path) for path in paths]
    found = {one.key: place.positions[one.path] for one in places if one.path in place.positions}
    if place.position is not None:
        found[""] = place.position
    return found
