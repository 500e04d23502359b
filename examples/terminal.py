"""Show redrive's events in the terminal as they happen; without a terminal, print plain lines."""

from collections.abc import Callable
from time import perf_counter

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from redrive.policies import RetryAt
from redrive.telemetry.events import AttemptFailed, CallRecovered, CallRefused, CircuitChanged, Event, FallbackUsed

console = Console(highlight=False, soft_wrap=True)


def scene(number: int, title: str) -> None:
    console.print(f"\n[bold cyan]{number}. {title}[/]")


def say(text: str) -> None:
    stop_waiting()
    tell(text)


def tell(text: str) -> None:
    """Print a line above the live line."""
    console.print(f"   {text}")


def quote(text: str) -> None:
    """Print text without interpreting its brackets as markup."""
    stop_waiting()
    console.print(escape(text))


def show_event(event: Event) -> None:
    """Show an event; use it as a listener: `redrive.listen(show_event)`."""
    if isinstance(event, AttemptFailed):
        failure, because = event.failure, event.decision.because
        declared = isinstance(event.decision, RetryAt) and failure.category != "transient"
        reason = (
            f"declared: the policy names {because.matched}" if declared else f"{failure.category}: {failure.reason}"
        )
        say(f"[red]attempt {event.attempt} of {event.attempts} failed[/]: {escape(failure.message or failure.type)}")
        say(f"  [dim]{escape(reason)}[/]")
        if isinstance(event.decision, RetryAt):
            source = " as Retry-After asks" if because.retry_after else ""
            say(f"  [yellow]next attempt in {because.wait:.2f} s{source}[/]")
            _count_down(because.wait)
        else:
            say(f"  [red]giving up ({event.decision.kind})[/]: {escape(because.detail)}")
    elif isinstance(event, CallRecovered):
        say(f"[green]succeeded at attempt {event.attempts}[/] after {event.elapsed:.2f} s")
    elif isinstance(event, CallRefused):
        say(f"[red]refused without a call[/]: the next probe may go in {event.retry_in:.2f} s")
    elif isinstance(event, FallbackUsed):
        say(f"[green]answered by the fallback[/]: {event.fallback}")
    elif isinstance(event, CircuitChanged):
        say(f"[magenta]circuit of {event.dependency}: {event.before} -> {event.after}[/]")


class _LiveLine:
    """Computes its text each time it is drawn."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def __rich__(self) -> Text:
        return Text(f"   {self._text()}", style="yellow")


_shown: list[Live] = []


def keep_showing(text: Callable[[], str]) -> None:
    """Keep a live line below all others until `stop_waiting()`; without a terminal, do nothing."""
    stop_waiting()
    if console.is_terminal:
        live = Live(_LiveLine(text), console=console, refresh_per_second=10, transient=True)
        live.start()
        _shown.append(live)


def stop_waiting() -> None:
    """Remove the live line."""
    while _shown:
        _shown.pop().stop()


def _count_down(seconds: float) -> None:
    until = perf_counter() + seconds
    keep_showing(lambda: f"waiting {max(0.0, until - perf_counter()):.1f} s")
