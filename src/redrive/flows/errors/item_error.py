"""The exception that a flow's code gets for a failed item: the same live and replayed, with its attempts attached."""

from contextlib import suppress
from typing import cast

from redrive.flows.errors.stored_error import rebuild_error
from redrive.flows.events import AttemptFailed, ItemGaveUp
from redrive.flows.item import Item
from redrive.policies.report import AttemptRecord, Report, attach, next_step

_ITEM = "__redrive_item__"
_CHILD = "__redrive_child__"
_DEEPEST = 20


def item_error(item: Item, event: AttemptFailed | ItemGaveUp) -> BaseException:
    """The exception for the flow's code. The event must have been applied to the item already."""
    error = as_exception(rebuild_error(event.error), f"action {item.step}")
    report = item_report(item)
    if report is not None:
        attach(error, report)
    try:
        object.__setattr__(error, _ITEM, item.number)
    except (AttributeError, TypeError):
        # The exception takes no attributes: a redrive then starts at the flow's end instead of at the item.
        return error
    return error


def as_exception(error: BaseException, what: str) -> Exception:
    """The error itself, or a RuntimeError about one that would end a task or the whole program."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapper = RuntimeError(f"{what} raised {type(error).__name__}: {error}".rstrip(": "))
    wrapper.__cause__ = error
    return wrapper


def item_report(item: Item) -> Report | None:
    """The failed attempts of an item and why it gave up; None while it has not given up."""
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
        next_step=next_step(item.gave_up, last.event.failure if last else None, None, item.policy),
    )


def mark_child(error: BaseException, child: int) -> None:
    """Note that the error is the failure of this child, so that a redrive begins there."""
    object.__setattr__(error, _CHILD, child)


def failed_item_of(error: BaseException | None) -> int | None:
    """The number of the item whose failure is the error itself or one of its causes."""
    return _marked(error, _ITEM)


def failed_child_of(error: BaseException | None) -> int | None:
    """The number of the child whose failure is the error itself or one of its causes."""
    return _marked(error, _CHILD)


def _marked(error: BaseException | None, mark: str) -> int | None:
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _DEEPEST:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        with suppress(Exception):  # some classes cannot be inspected
            # Not getattr: a class may have its own __getattr__, which may raise anything.
            with suppress(AttributeError):
                return cast("int", object.__getattribute__(one, mark))
            if isinstance(one, BaseExceptionGroup):
                waiting.extend(one.exceptions)
            waiting.extend((one.__cause__, None if one.__suppress_context__ else one.__context__))
    return None
