"""What a flow goes through while someone watches: a line for each failed attempt, and on a terminal a countdown."""

import contextlib
import shutil
import sys
from typing import TYPE_CHECKING

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import StoreUnavailableError
from redrive.explain.words import attempt_of, error_line, span
from redrive.policies.decision import RetryAt
from redrive.stores.records import FINISHED
from redrive.telemetry.events import AttemptFailed, Event

if TYPE_CHECKING:
    from redrive.client.app import App

TICK = 0.1
# The flow's row is looked at less often than the countdown moves.
TICKS_A_LOOK = 5


class Progress:
    """A listener of events, and a status line; both on stderr, so that stdout is the result alone."""

    def __init__(self, flow_id: str) -> None:
        self._flow_id = flow_id
        self._began = SYSTEM_CLOCK.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._next: dict[str, tuple[float, str]] = {}
        """By step: when its next attempt begins, and which one that is."""

    def listen(self, event: Event) -> None:
        if not isinstance(event, AttemptFailed) or event.correlation_id != self._flow_id:
            return
        decision, because = event.decision, event.decision.because
        number = attempt_of(event.attempt, because.attempt, because.attempts)
        failed = f"{event.operation}: attempt {number} failed ({event.failure.category})"
        error = error_line(event.failure.type or event.failure.kind, event.failure.message)
        if isinstance(decision, RetryAt):
            following = attempt_of(event.attempt + 1, because.attempt + 1, because.attempts)
            self._next[event.operation] = decision.when, following
            then = f"attempt {following} in {span(because.wait)}"
        else:
            self._next.pop(event.operation, None)
            then = f"gave up ({decision.kind}): {because.detail}"
        self.say(f"{failed}: {error}; {then}")

    def say(self, line: str) -> None:
        passed = span(SYSTEM_CLOCK.monotonic() - self._began)
        self.clear()
        print(f"+{passed:<8} {line}", file=sys.stderr, flush=True)  # noqa: T201 - this is the terminal

    def clear(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    async def watch(self, app: "App") -> None:
        """Until the flow has ended or cannot go on; meanwhile keep the status line, where there is a terminal."""
        ticks = 0
        wake_at: float | None = None
        while True:
            if ticks % TICKS_A_LOOK == 0:
                with contextlib.suppress(StoreUnavailableError):
                    record = await app.find(self._flow_id)
                    wake_at = record.wake_at
                    if record.status in (*FINISHED, "parked"):
                        return
            ticks += 1
            if self._is_terminal:
                self._show(wake_at)
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + TICK)

    def _show(self, wake_at: float | None) -> None:
        now = SYSTEM_CLOCK.wall()
        coming = min(((when, step, number) for step, (when, number) in self._next.items() if when > now), default=None)
        if coming is not None:
            status = f"{coming[1]}: attempt {coming[2]} in {coming[0] - now:.1f} s"
        elif wake_at is not None and wake_at > now:
            status = f"waits, goes on in {span(round(wake_at - now))}"
        else:
            status = f"running for {span(round(SYSTEM_CLOCK.monotonic() - self._began))}"
        sys.stderr.write(f"\r\x1b[K{status}"[: shutil.get_terminal_size().columns - 1 + len("\r\x1b[K")])
        sys.stderr.flush()
