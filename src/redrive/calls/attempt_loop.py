"""The loop that `redrive.attempts()` returns: each `with attempt:` body is one attempt."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType

from redrive.calls.guard import Guard
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retry_protocol import AttemptNow, Failed, Outcome, RetrySteps, SleepUntil, Succeeded, retry_steps
from redrive.calls.scope import CURRENT, OWNER, Scope, owner_after
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.raising import raise_as_it_is
from redrive.determinism.thread_cut import CutShort


class _LoopState:
    """The protocol's next step, or the outcome once the loop has ended."""

    def __init__(self, guard: Guard) -> None:
        self.call = GuardedCall(guard, guard.operation or "attempts", current_clock(), current_dice(), CURRENT.get())
        self.owner = self.call.scope[OWNER]
        self._steps: RetrySteps = retry_steps(self.call)
        self.step: AttemptNow | SleepUntil | None = None
        self.outcome: Outcome | None = None
        self.advance(None)

    def advance(self, outcome: Outcome | None) -> None:
        try:
            self.step = self._steps.send(outcome)
        except StopIteration as stop:
            # A closed loop has no outcome of its own; an attempt that continues alone provides it.
            self.step, self.outcome = None, stop.value or outcome

    def next_attempt(self) -> AttemptNow | None:
        """Return the attempt to make, or None when the loop has ended. Raises a failure that no `with` could raise."""
        if isinstance(self.outcome, Failed):
            self.outcome.unwrap()
        return self.step if isinstance(self.step, AttemptNow) else None

    def close(self) -> None:
        self._steps.close()


class GuardedAttempt:
    """One attempt: write `with attempt:` around the work."""

    def __init__(self, loop: _LoopState, step: AttemptNow, cut: AbstractContextManager[None] | None) -> None:
        self.number = step.number
        """From 1."""
        self.reread = step.reread
        """True after an optimistic-lock conflict: read the state again first."""
        self.entered = False
        self._loop = loop
        self._cut = cut
        self._outer: Scope | None = None

    @property
    def time_left(self) -> float | None:
        """Seconds until this attempt should have ended; None: no limit."""
        call = self._loop.call
        return None if call.attempt_until is None else max(0.0, call.attempt_until - call.clock.monotonic())

    def __enter__(self) -> "GuardedAttempt":
        call = self._loop.call
        if self.entered:
            raise RuntimeError("this attempt has already been made: put all of its work into one `with attempt:`")
        self.entered = True
        outer = CURRENT.get()
        try:
            if call.scope is not outer:
                self._outer = outer
                call.scope[OWNER] = self._loop.owner
                CURRENT.set(call.scope)
            if self._cut is not None:
                self._cut.__enter__()
        except BaseException:
            self._leave_scope()
            raise
        return self

    def _leave_scope(self) -> None:
        if self._outer is not None:
            self._loop.call.scope[OWNER] = owner_after(self._loop.call.clock)
            CURRENT.set(self._outer)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        loop = self._loop
        try:
            ended_with = self._end_cut(kind, error, trace)
        finally:
            self._leave_scope()
        raised: BaseException | None = None
        if ended_with is None or isinstance(ended_with, Exception):
            loop.advance(Succeeded(None) if ended_with is None else Failed(ended_with))
            if isinstance(loop.outcome, Failed):
                raised = loop.outcome.error
        else:
            loop.close()
            raised = ended_with
        try:
            if raised is None or raised is error:
                return raised is None
            raise_as_it_is(raised)
        finally:
            # The traceback refers to this frame: without this, the error would refer to itself.
            del error, ended_with, raised

    def _end_cut(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> BaseException | None:
        """Leave the cut, and return the error that the body ended with."""
        if self._cut is None:
            return error
        try:
            self._cut.__exit__(kind, error, trace)
        except CutShort:
            return self._loop.call.cut_error()
        except BaseException as changed:  # noqa: BLE001 - trio removes its own cancellations from an exception group
            return changed
        return error

    def __repr__(self) -> str:
        return f"<attempt {self.number} of {self._loop.call.operation}>"


class Attempts:
    """The loop over attempts. Each `for` or `async for` over it is a call of its own."""

    def __init__(self, guard: Guard) -> None:
        if guard.fallback is not None or guard.retry_result is not None:
            raise TypeError("a loop over attempts has no result: use fallback and retry_result with a guarded function")
        self._guard = guard

    def __iter__(self) -> Iterator[GuardedAttempt]:
        if self._guard.policy.attempt_timeout is not None:
            raise TypeError(
                "attempt_timeout cannot cancel the body of a plain `for`; use `async for`, or guard a function"
            )
        loop = _LoopState(self._guard)
        try:
            while True:
                while isinstance(loop.step, SleepUntil):
                    loop.call.clock.sleep_until(loop.step.when)
                    loop.advance(None)
                step = loop.next_attempt()
                if step is None:
                    return
                attempt = GuardedAttempt(loop, step, None)
                yield attempt
                _check_entered(attempt)
        finally:
            loop.close()

    def __aiter__(self) -> "AsyncAttempts":
        return AsyncAttempts(_LoopState(self._guard))


class AsyncAttempts:
    """One `async for` over attempts. Not an async generator, which would outlive a loop that is left early."""

    def __init__(self, loop: _LoopState) -> None:
        self._loop = loop
        self._attempt: GuardedAttempt | None = None

    def __aiter__(self) -> "AsyncAttempts":
        return self

    def __del__(self) -> None:
        # The loop was left, perhaps before `with attempt:`. The user may still refer to the attempt, which may hold
        # the permit of a circuit.
        self._loop.close()

    async def __anext__(self) -> GuardedAttempt:
        try:
            return await self._next_attempt()
        except BaseException:
            # The error's traceback may keep the loop alive for long: release now what the next attempt reserved.
            self._loop.close()
            raise

    async def _next_attempt(self) -> GuardedAttempt:
        loop = self._loop
        if self._attempt is not None:
            _check_entered(self._attempt)
        while isinstance(loop.step, SleepUntil):
            await loop.call.clock.asleep_until(loop.step.when)
            loop.advance(None)
        step = loop.next_attempt()
        if step is None:
            raise StopAsyncIteration
        cut = None if step.until is None else loop.call.clock.cut_at(step.until)
        self._attempt = GuardedAttempt(loop, step, cut)
        return self._attempt


def _check_entered(attempt: GuardedAttempt) -> None:
    if not attempt.entered:
        raise RuntimeError("the loop body did not enter `with attempt:`; put the work inside it")
