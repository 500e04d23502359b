"""Everything that is wrong with a graph, found in one go."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from redrive.errors import GraphError, NotationError
from redrive.failures.secret_names import names_a_secret
from redrive.notation.fields import Fields
from redrive.notation.place import Place, similar

MOST_SHOWN = 50
"""Problems that are told; the rest is counted."""


class Problems:
    """Collects them. As a context, it takes the NotationError that leaves its block, and goes on behind it."""

    def __init__(self) -> None:
        self.found: list[NotationError] = []
        self.left_out = 0
        self._known: set[str] = set()

    @property
    def count(self) -> int:
        return len(self._known)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if not isinstance(error, NotationError):
            return False
        self.add(error)
        return True

    def add(self, error: NotationError) -> None:
        """The same problem, found again in another environment, counts once."""
        text = str(error)
        if text in self._known:
            return
        self._known.add(text)
        if len(self.found) < MOST_SHOWN:
            self.found.append(error)
        else:
            self.left_out += 1

    def similar(self, word: str, known: Sequence[str]) -> str:
        """A near name. Not for problems that are no longer told, since looking for it takes its time."""
        return similar(word, tuple(known)) if len(self.found) < MOST_SHOWN else ""

    def fields(
        self, data: Any, place: Place, known: Sequence[str], what: str, renamed: Mapping[str, str] | None = None
    ) -> Fields | None:
        """The known keys of a mapping; the unknown ones are told, all of them. None where it is no mapping."""
        if not isinstance(data, Mapping):
            self.add(place.refuse(data, f"not {what}", f"a mapping with the keys {', '.join(known)}"))
            return None
        secret = bool(place.path) and names_a_secret(str(place.path[-1]))
        for key, written in data.items():
            value = "***" if secret else written
            if renamed and key in renamed:
                self.add(place.at(str(key)).refuse(value, f"no longer a key; write '{renamed[key]}'", ", ".join(known)))
            elif key not in known:
                hint = self.similar(str(key), known)
                self.add(place.at(str(key)).refuse(value, f"unknown{hint}", ", ".join(known)))
        return Fields({key: value for key, value in data.items() if key in known}, place, known)

    def raise_found(self) -> None:
        if self.found:
            raise GraphError(sorted(self.found, key=lambda one: one.line or 0), self.left_out)
