"""Show a flow's progress: a line for each failed attempt, and on a terminal a countdown."""

import contextlib
import shutil
import sys
from typing import TYPE_CHECKING

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.formatting.text import format_attempt_number, format_error, terminal_text
from redrive.formatting.times import format_duration
from redrive.policies.decision import RetryAt
from redrive.stores.records import FINISHED
from redrive.telemetry.events import AttemptFailed, Event

if TYPE_CHECKING:
    from redrive.client.app import App

TICK = 0.1
# The flow's record is read less often than the countdown moves.
TICKS_PER_READ = 5


class Progress:
    """Prints events and a status line on stderr, so that stdout has the result alone."""

    def __init__(self, flow_id: str) -> None:
        self._flow_id = flow_id
        self._began = SYSTEM_CLOCK.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._next: dict[str, tuple[float, str]] = {}
        """By step: when its next attempt begins, and its number."""

    def listen(self, event: Event) -> None:
        if not isinstance(event, AttemptFailed) or event.correlation_id != self._flow_id:
            return
        decision, because = event.decision, event.decision.because
        number = format_attempt_number(event.attempt, because.attempt, because.attempts)
        failed = f"{event.operation}: attempt {number} failed ({event.failure.category})"
        error = format_error(event.failure.type or event.failure.kind, event.failure.message)
        if isinstance(decision, RetryAt):
            following = format_attempt_number(event.attempt + 1, because.attempt + 1, because.attempts)
            self._next[event.operation] = decision.when, following
            then = f"attempt {following} in {format_duration(because.wait)}"
        else:
            self._next.pop(event.operation, None)
            then = f"gave up ({decision.kind}): {because.detail}"
        self.say(f"{failed}: {error}; {then}")

    def say(self, line: str) -> None:
        passed = format_duration(SYSTEM_CLOCK.monotonic() - self._began)
        self.clear()
        print(f"+{passed:<8} {terminal_text(line)}", file=sys.stderr, flush=True)  # noqa: T201 - this is the terminal

    def clear(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    async def watch(self, app: "App") -> None:
        """Update the status line, if there is a terminal, until the flow has ended or is parked."""
        ticks = 0
        wake_at: float | None = None
        while True:
            if ticks % TICKS_PER_READ == 0:
                with contextlib.suppress(StoreUnavailableError):
                    record = await app.find(self._flow_id)
                    wake_at = record.wake_at
                    if record.status in (*FINISHED, "parked"):
                        return
            ticks += 1
            if self._is_terminal:
                self._show_status(wake_at)
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + TICK)

    def _show_status(self, wake_at: float | None) -> None:
        now = SYSTEM_CLOCK.wall()
        coming = min(((when, step, number) for step, (when, number) in self._next.items() if when > now), default=None)
        if coming is not None:
            status = f"{terminal_text(coming[1])}: attempt {coming[2]} in {coming[0] - now:.1f} s"
        elif wake_at is not None and wake_at > now:
            status = f"waiting, continues in {format_duration(round(wake_at - now))}"
        else:
            status = f"running for {format_duration(round(SYSTEM_CLOCK.monotonic() - self._began))}"
        sys.stderr.write(f"\r\x1b[K{status}"[: shutil.get_terminal_size().columns - 1 + len("\r\x1b[K")])
        sys.stderr.flush()
