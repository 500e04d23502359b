"""The result of reading a policy: the policy, its warnings, and where each field was set."""

from collections.abc import Mapping

import msgspec

from redrive.notation.place import Position
from redrive.policies.policy import Policy


class NamedWarning(msgspec.Struct, frozen=True):
    """A setting whose meaning changed in conversion."""

    id: str
    """A stable identifier, such as "zero-wait"."""
    text: str
    """What changed, as a sentence."""
    key: str = ""
    """The key that is affected."""
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.id}: {self.text}"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that was read from a notation."""

    policy: Policy
    notation: str
    warnings: tuple[NamedWarning, ...] = ()
    written: Mapping[str, str] = {}
    """Policy field -> the key that sets it, for fields that are not left to their default."""
    positions: Mapping[str, Position] = {}
    """Key -> its position; empty when the policy did not come from text."""
    source: str = "<data>"
    dialect: str = ""
    """Which of its forms the notation is written in, if advice depends on it: temporal_python, celery_retry."""

    def line_of(self, field: str) -> int | None:
        """Return the line that sets a field, or else the first line of the policy."""
        found = self.positions.get(self.written.get(field, "")) or self.positions.get("")
        return found.line if found else None
