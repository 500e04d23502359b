"""What reading a policy gives: the policy, and what is worth knowing about how it was written."""

from collections.abc import Mapping

import msgspec

from redrive.notation.place import Position
from redrive.policies.policy import Policy


class NamedWarning(msgspec.Struct, frozen=True):
    """Something that changed its meaning on the way in or out."""

    id: str
    """A stable name, such as "zero-wait"."""
    text: str
    """What it was, and what it is now."""
    key: str = ""
    """The key it is about."""
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.id}: {self.text}"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A policy as it was found in some notation."""

    policy: Policy
    notation: str
    warnings: tuple[NamedWarning, ...] = ()
    written: Mapping[str, str] = {}
    """Policy field -> the key that sets it, for the fields that are written down and not left to a default."""
    positions: Mapping[str, Position] = {}
    """Key -> where it stands; empty when the policy did not come from text."""
    source: str = "<data>"

    def line_of(self, field: str) -> int | None:
        """The line that sets a field of the policy, or the line the policy begins on."""
        found = self.positions.get(self.written.get(field, "")) or self.positions.get("")
        return found.line if found else None
