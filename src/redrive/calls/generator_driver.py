"""Restarts a generator from its beginning when it fails; the items it had given come again."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from inspect import isawaitable
from typing import Any

from redrive.calls.async_driver import NO_CUT
from redrive.calls.flow import Failed, Outcome, SleepUntil, Succeeded, retry_flow
from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT
from redrive.calls.sync_driver import read_again
from redrive.determinism.clock import Clock, current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.raising import raise_as_it_is
from redrive.determinism.thread_cut import CutShort


async def until(clock: Clock, when: float | None, item: Awaitable[Any]) -> Any:
    """Cut the generator's own work on its next item at `when`."""
    with NO_CUT if when is None else clock.cut_at(when):
        return await item


def guard_generator_function(
    guard: Retrier, operation: str, function: Callable[..., Any], is_async: bool
) -> Callable[..., Any]:
    # The consumer runs between two items, in the same context: a generator claims no ownership of its retries there.
    if guard.fallback is not None or guard.retry_result is not None:
        raise TypeError(f"{operation}: a generator has no single result: fallback and retry_result cannot be used")
    if guard.policy.attempt_timeout is not None:
        raise TypeError(f"{operation}: attempt_timeout cannot cut a generator; the consumer's time would count too")

    reread = guard.reread

    def begin() -> GuardedCall:
        return GuardedCall(guard, operation, current_clock(), current_dice(), CURRENT.get())

    def items(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = begin()
        flow = retry_flow(call)
        try:
            step = next(flow)
            while True:
                if isinstance(step, SleepUntil):
                    call.clock.sleep_until(step.when)
                    step = flow.send(None)
                    continue
                outcome: Outcome
                source, thrown = function(*args, **kwargs), False
                try:
                    if step.reread and reread is not None:
                        read_again(operation, reread)
                    item = next(source)
                    while True:
                        thrown = False
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
                        # Not its work has failed: it answers to what its consumer threw at it.
                        raise
                    outcome = Failed(error)
                finally:
                    source.close()
                step = flow.send(outcome)
        except StopIteration as stop:
            outcome = stop.value
        finally:
            flow.close()
        if isinstance(outcome, Failed):
            raise_as_it_is(outcome.error)
        return outcome.result

    async def async_items(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = begin()
        clock, flow = call.clock, retry_flow(call)
        try:
            step = next(flow)
            while True:
                if isinstance(step, SleepUntil):
                    await clock.asleep_until(step.when)
                    step = flow.send(None)
                    continue
                outcome: Outcome
                source, thrown, end = function(*args, **kwargs), False, step.until
                try:
                    if step.reread and reread is not None:
                        again = reread()
                        if isawaitable(again):
                            await until(clock, end, again)
                    item = await until(clock, end, anext(source))
                    while True:
                        thrown = False
                        given = clock.monotonic()
                        try:
                            sent = yield item
                        except GeneratorExit:
                            raise
                        except BaseException as error:  # noqa: BLE001 - passed on
                            thrown = True
                            following = source.athrow(error)
                        else:
                            following = source.asend(sent)
                        if end is not None:
                            # The consumer's time does not count: closing up after a slow one would be cut at once.
                            end += clock.monotonic() - given
                        item = await until(clock, end, following)
                except StopAsyncIteration:
                    outcome = Succeeded(None)
                except CutShort:
                    outcome = Failed(call.cut_error())
                except Exception as error:
                    if thrown:
                        raise
                    outcome = Failed(error)
                finally:
                    await source.aclose()
                step = flow.send(outcome)
        except StopIteration as stop:
            outcome = stop.value
        finally:
            flow.close()
        if isinstance(outcome, Failed):
            raise_as_it_is(outcome.error)

    return async_items if is_async else items
