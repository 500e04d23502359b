"""Collect all problems of a graph, to report them together."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from redrive.errors import GraphError, NotationError
from redrive.failures.secret_names import names_a_secret
from redrive.notation.fields import Fields
from redrive.notation.place import Place, similar

MOST_KEYS = 1000
"""The keys of one mapping that has a few known ones: more are not even looked at."""
MOST_SHOWN = 50
"""How many problems are shown; the others are only counted."""


class Problems:
    """Collects problems. As a context manager, it collects the NotationError that its block raises."""

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
        """Add a problem, unless it was found before in another environment."""
        text = str(error)
        if text in self._known:
            return
        self._known.add(text)
        if len(self.found) < MOST_SHOWN:
            self.found.append(error)
        else:
            self.left_out += 1

    def similar(self, word: str, known: Sequence[str]) -> str:
        """A hint with a similar name; empty for problems that are no longer shown, since finding it is slow."""
        return similar(word, tuple(known)) if len(self.found) < MOST_SHOWN else ""

    def fields(
        self, data: Any, place: Place, known: Sequence[str], what: str, renamed: Mapping[str, str] | None = None
    ) -> Fields | None:
        """The known keys of a mapping, None when it is not a mapping. Unknown keys are added as problems."""
        if not isinstance(data, Mapping):
            self.add(place.refuse(data, f"not {what}", f"a mapping with the keys {', '.join(known)}"))
            return None
        if len(data) > MOST_KEYS:
            problem = f"{len(data):,} keys are too many"
            self.add(place.refuse(None, problem, f"at most {MOST_KEYS:,}: {', '.join(known)}"))
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
