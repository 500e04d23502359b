"""What happened in a simulated fleet, in order."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Happening(NamedTuple):
    """One line of a story: when, on which machine, and what."""

    at: float
    who: str
    what: str
    about: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.at:9.3f}  {self.who:<8} {self.what}{' ' if self.about else ''}{' '.join(map(str, self.about))}"


class Story:
    """Collects what happens. Lines are made into text only when someone reads them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.lines: list[Happening] = []
        self._now = now

    def tell(self, who: str, what: str, *about: Any) -> None:
        self.lines.append(Happening(self._now(), who, what, about))

    def about(self, words: Iterable[str]) -> list[str]:
        """The lines with one of these words, and what befell the machines, as text."""
        wanted = tuple(words)
        return [
            text
            for line in self.lines
            if (text := str(line)) and (line.who == "fate" or any(word in text for word in wanted))
        ]

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))
