"""What a checker has found wrong."""

from typing import NamedTuple


class Finding(NamedTuple):
    """A promise that was broken."""

    kind: str
    """Which one, in a few words."""
    what: str
    flow_id: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Findings:
    """Collects findings. Kinds that are known are counted, and are no findings."""

    def __init__(self, known: frozenset[str] = frozenset()) -> None:
        self.all: list[Finding] = []
        self.known: dict[str, int] = {}
        self._known = known

    def add(self, kind: str, what: str, flow_id: str = "") -> None:
        if kind in self._known:
            self.known[kind] = self.known.get(kind, 0) + 1
        else:
            self.all.append(Finding(kind, what, flow_id))
