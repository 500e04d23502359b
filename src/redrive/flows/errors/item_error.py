"""The exception of an item that failed for good: the same, live and replayed, with its attempts attached."""

from contextlib import suppress
from typing import cast

from redrive.flows.errors.stored_error import rebuild_error
from redrive.flows.events import AttemptFailed, ItemGaveUp
from redrive.flows.history import Item
from redrive.policies.report import AttemptRecord, Report, attach, next_step

_ITEM = "__redrive_item__"
_DEEPEST = 20


def item_error(item: Item, event: AttemptFailed | ItemGaveUp) -> BaseException:
    """What the flow's code gets to see; the event has been applied to the item."""
    error = as_exception(rebuild_error(event.error), f"action {item.step}")
    report = item_report(item)
    if report is not None:
        attach(error, report)
    try:
        object.__setattr__(error, _ITEM, item.number)
    except (AttributeError, TypeError):
        # Without a place for it the flow still fails; only its redrive begins at the flow's code, not at the item.
        return error
    return error


def as_exception(error: BaseException, what: str) -> Exception:
    """The error, if the flow's code can be given it: one that would end a task or the program is told about instead."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    told = RuntimeError(f"{what} raised {type(error).__name__}: {error}".rstrip(": "))
    told.__cause__ = error
    return told


def item_report(item: Item) -> Report | None:
    """Every failed attempt of an item, and why it gave up; None while it has not."""
    if item.gave_up is None:
        return None
    first = item.failures[0].began if item.failures else item.attempt_began
    last = item.failures[-1] if item.failures else None
    records = tuple(
        AttemptRecord(
            number=failed.event.attempt,
            began=failed.began - first,
            ended=failed.ended - first,
            failure=failed.event.failure,
            decision=failed.event.decision,
        )
        for failed in item.failures
    )
    return Report(
        operation=item.step,
        attempts=records,
        left_out=max(0, item.attempt - len(records)) if last else 0,
        elapsed=last.ended - first if last else 0.0,
        gave_up=item.gave_up,
        next_step=next_step(item.gave_up, last.event.failure if last else None, None),
    )


def failed_item_of(error: BaseException | None) -> int | None:
    """The item whose failure the error is, or came of."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _DEEPEST:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        with suppress(Exception):  # some classes cannot be looked at
            # Not getattr: a class may have a __getattr__ of its own, and ideas of its own what that raises.
            with suppress(AttributeError):
                return cast("int", object.__getattribute__(one, _ITEM))
            if isinstance(one, BaseExceptionGroup):
                waiting.extend(one.exceptions)
            waiting.extend((one.__cause__, None if one.__suppress_context__ else one.__context__))
    return None
