"""Shows redrive's events in the terminal as they happen; without a terminal it prints plain lines."""

from time import perf_counter

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from redrive import RetryAt
from redrive.observability.events import AttemptFailed, CallRecovered, CallRefused, CircuitChanged, Event, FallbackUsed

console = Console(highlight=False, soft_wrap=True)


def scene(number: int, title: str) -> None:
    console.print(f"\n[bold cyan]{number}. {title}[/]")


def say(text: str) -> None:
    stop_waiting()
    console.print(f"   {text}")


def quote(text: str) -> None:
    """Print text as it is, whatever brackets it has."""
    stop_waiting()
    console.print(escape(text))


def show_event(event: Event) -> None:
    """The listener: `redrive.listen(show_event)`."""
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
            _start_waiting(because.wait)
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


class _Countdown:
    """A line that counts down while a wait goes on."""

    def __init__(self, seconds: float) -> None:
        self.until = perf_counter() + seconds

    def __rich__(self) -> Text:
        return Text(f"   waiting {max(0.0, self.until - perf_counter()):.1f} s", style="yellow")


_waiting: list[Live] = []


def _start_waiting(seconds: float) -> None:
    if console.is_terminal:
        live = Live(_Countdown(seconds), console=console, refresh_per_second=10, transient=True)
        live.start()
        _waiting.append(live)


def stop_waiting() -> None:
    """Take the countdown off the screen."""
    while _waiting:
        _waiting.pop().stop()
