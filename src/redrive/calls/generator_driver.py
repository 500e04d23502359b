"""Guards generators: one that fails before its first item is started again; after it, a retry would repeat output.

With `restart` a generator is started again at any time, so its items may be repeated.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from inspect import isawaitable
from typing import Any, NoReturn

from redrive.calls.async_driver import NO_CUT
from redrive.calls.guard import Guard
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retry_protocol import Failed, Outcome, SleepUntil, Succeeded, failed, retry_steps
from redrive.calls.scope import CURRENT
from redrive.calls.sync_driver import reread_state
from redrive.determinism.clock import Clock, current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.thread_cut import CutShort
from redrive.errors import StreamBrokenError
from redrive.policies.report import attach, report_of


def guarded_generator_function(
    guard: Guard, operation: str, function: Callable[..., Any], yields_async: bool, restart: bool
) -> Callable[..., Any]:
    # The consumer runs between two items, in the same context: a generator does not own the consumer's retries.
    if guard.fallback is not None or guard.retry_result is not None:
        raise TypeError(f"{operation}: fallback and retry_result need a single result, and a generator has none")
    if guard.policy.attempt_timeout is not None:
        if restart:
            raise TypeError(
                f"{operation}: attempt_timeout would include the consumer's time; use deadline for a generator"
            )
        if not yields_async:
            raise TypeError(
                f"{operation}: attempt_timeout cannot cut a plain generator; use an async generator, or the timeout "
                "of what the generator calls"
            )

    def new_call() -> GuardedCall:
        return GuardedCall(guard, operation, current_clock(), current_dice(), CURRENT.get())

    return guarded_by(new_call, function, yields_async, restart)


def guarded_by(
    new_call: Callable[[], GuardedCall], function: Callable[..., Any], yields_async: bool, restart: bool = False
) -> Callable[..., Any]:
    """Return the generator function, guarded by a new call each time.

    Until the first item the deadline and `attempt_timeout` hold. With `restart` the deadline holds to the end.
    """

    def items(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = new_call()
        steps, reread = retry_steps(call), call.guard.reread
        try:
            step = next(steps)
            while True:
                if isinstance(step, SleepUntil):
                    call.clock.sleep_until(step.when)
                    step = steps.send(None)
                    continue
                outcome: Outcome
                source, thrown = function(*args, **kwargs), False
                try:
                    if step.reread and reread is not None:
                        reread_state(call.operation, reread)
                    item = next(source)
                    while True:
                        thrown = False
                        if not restart:
                            call.handed_on += 1
                        try:
                            sent = yield item
                        except GeneratorExit:
                            raise
                        except BaseException as error:  # noqa: BLE001 - passed on, as `yield from` does
                            thrown = True
                            item = source.throw(error)
                        else:
                            item = source.send(sent)
                except StopIteration as stop:
                    outcome = Succeeded(stop.value)
                except Exception as error:
                    if thrown:
                        # The generator's work has not failed: it raised in response to what its consumer threw.
                        raise
                    outcome = failed(error)
                finally:
                    source.close()
                step = steps.send(outcome)
        except StopIteration as stop:
            outcome = stop.value
        finally:
            steps.close()
        try:
            _raise_if_broken(call, outcome)
            return outcome.unwrap()
        finally:
            # The traceback refers to this frame: without this, the error would refer to itself.
            del outcome, call

    async def async_items(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = new_call()
        clock, steps, reread = call.clock, retry_steps(call), call.guard.reread
        try:
            step = next(steps)
            while True:
                if isinstance(step, SleepUntil):
                    await clock.asleep_until(step.when)
                    step = steps.send(None)
                    continue
                outcome: Outcome
                source, thrown, until = function(*args, **kwargs), False, step.until
                try:
                    if step.reread and reread is not None:
                        returned = reread()
                        if isawaitable(returned):
                            await _cut_at(clock, until, returned)
                    item = await _cut_at(clock, until, anext(source))
                    while True:
                        thrown = False
                        if not restart:
                            # Nothing is retried from here on, so the limits of the retries have done their work.
                            call.handed_on, until = call.handed_on + 1, None
                        yielded_at = clock.monotonic()
                        try:
                            sent = yield item
                        except GeneratorExit:
                            raise
                        except BaseException as error:  # noqa: BLE001 - passed on
                            thrown = True
                            following = source.athrow(error)
                        else:
                            following = source.asend(sent)
                        if until is not None:
                            # The consumer's time does not count: cleaning up after a slow one would be cut at once.
                            until += clock.monotonic() - yielded_at
                        item = await _cut_at(clock, until, following)
                except StopAsyncIteration:
                    outcome = Succeeded(None)
                except CutShort:
                    outcome = Failed(call.cut_error())
                except Exception as error:
                    if thrown:
                        raise
                    outcome = failed(error)
                finally:
                    await source.aclose()
                step = steps.send(outcome)
        except StopIteration as stop:
            outcome = stop.value
        finally:
            steps.close()
        try:
            _raise_if_broken(call, outcome)
            outcome.unwrap()
        finally:
            del outcome, call

    return async_items if yields_async else items


def _raise_if_broken(call: GuardedCall, outcome: Outcome) -> None:
    """Raise StreamBrokenError if the output that was handed on is what prevented a retry."""
    if isinstance(outcome, Failed) and call.gave_up is not None and call.gave_up.kind == "output_handed_on":
        _raise_broken(call.handed_on, outcome.error)


def _raise_broken(chunks: int, error: Exception) -> NoReturn:
    broken = StreamBrokenError(chunks, error)
    if (report := report_of(error)) is not None:
        attach(broken, report)
    try:
        raise broken from error
    finally:
        del broken, error


async def _cut_at(clock: Clock, when: float | None, item: Awaitable[Any]) -> Any:
    """Await the generator's next item, and cancel that at `when`."""
    with NO_CUT if when is None else clock.cut_at(when):
        return await item
