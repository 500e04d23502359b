"""Print scenes and lines, with a live line below them; without a terminal, print plain lines."""

from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.text import Text

console = Console(highlight=False, soft_wrap=True)


def scene(number: int, title: str) -> None:
    console.print(f"\n[bold cyan]{number}. {title}[/]")


def say(text: str) -> None:
    """Print a line above the live line."""
    console.print(f"   {text}")


class _LiveLine:
    """Computes its text each time it is drawn."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def __rich__(self) -> Text:
        return Text(f"   {self._text()}", style="yellow")


_shown: list[Live] = []


def keep_showing(text: Callable[[], str]) -> None:
    """Keep a live line below all others until `stop_showing()`; without a terminal, do nothing."""
    stop_showing()
    if console.is_terminal:
        live = Live(_LiveLine(text), console=console, refresh_per_second=10, transient=True)
        live.start()
        _shown.append(live)


def stop_showing() -> None:
    """Remove the live line."""
    while _shown:
        _shown.pop().stop()
