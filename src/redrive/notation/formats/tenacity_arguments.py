"""The arguments of one tenacity call, by name and type."""

from collections.abc import Sequence
from typing import Any

from redrive.errors import NotationError
from redrive.notation.durations import read_duration, read_wait
from redrive.notation.fields import NOT_ALLOWED, Fields
from redrive.notation.place import similar
from redrive.notation.python_values import Call, as_plain
from redrive.policies.backoff import LONGEST_WAIT


class Arguments:
    """The arguments of a call; positional ones get the names of the parameters."""

    def __init__(self, call: Call, fields: Fields, key: str, parameters: Sequence[str]) -> None:
        self._call = call
        self._fields = fields
        self._key = key
        if len(call.arguments) > len(parameters):
            raise self._refuse("too many arguments", f"at most {', '.join(parameters) or 'none'}")
        self.values: dict[str, Any] = dict(zip(parameters, call.arguments, strict=False))
        for name, value in call.keywords.items():
            if name not in parameters:
                problem = f"{call.name} has no argument '{name}'{similar(name, tuple(parameters))}"
                raise self._refuse(problem, ", ".join(parameters) or "no argument")
            self.values[name] = value

    def whole(self, name: str, most: int) -> int:
        value = self.values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return value
        if value == 0 and not isinstance(value, bool):
            raise self._refuse("nothing would ever run; write 1 for one attempt", "a whole number from 1", rule="RD006")
        raise self._refuse(f"{NOT_ALLOWED}", f"{name} as a whole number from 1 to {most}")

    def seconds(self, name: str, default: float | None, *, zero: bool = True) -> float:
        """Read seconds from a number or a timedelta, limited to the longest wait a policy accepts."""
        if name not in self.values and default is not None:
            return default
        try:
            seconds = read_wait(min(read_duration(as_plain(self.values.get(name))), LONGEST_WAIT))
        except ValueError:
            seconds = None
        if seconds is not None and (seconds > 0 or zero):
            return seconds
        raise self._refuse(NOT_ALLOWED, f"{name} as seconds {'from' if zero else 'above'} 0, or a timedelta")

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        value = self.values.get(name, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        raise self._refuse(NOT_ALLOWED, f"{name} as a number from {least:g} to {most:g}")

    def _refuse(self, problem: str, allowed: str, rule: str = "") -> NotationError:
        return self._fields.place.at(self._key).refuse(repr(self._call), problem, allowed, rule=rule)
