"""Classify how an attempt ended: the failure that `decide()` is asked about."""

from msgspec import structs

from redrive.determinism.dice import Dice
from redrive.errors import AttemptLostError, CircuitOpenError, DeadlineExceededError, Snooze
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.failures.failure import Failure
from redrive.failures.matching import lineage
from redrive.failures.redaction import redact
from redrive.flows.errors.stored_error import StoredError, store_error
from redrive.flows.events import ItemGaveUp
from redrive.flows.item import Item
from redrive.policies.backoff import LONGEST_WAIT
from redrive.policies.decide import is_retried
from redrive.policies.decision import Because, GiveUp, GiveUpKind
from redrive.worker.dependency_guard import SPREAD

SHORTEST_SNOOZE = 0.1
LOST = "the process that ran the attempt is gone, and its outcome is unknown"


def classify(error: BaseException, wall_now: float, *, timed_out: bool = False, poison: bool = False) -> Failure:
    """Classify the error as a Failure. `poison`: no other attempt can succeed."""
    failure = DEFAULT_CLASSIFIER.failure_of(error, wall_now, timed_out)
    if poison:
        return structs.replace(failure, category="permanent", reason="no attempt can succeed", poison=True)
    if isinstance(error, AttemptLostError):
        # The process that ran the action died; the same as when the worker dies. It ran nothing else.
        return structs.replace(failure, category="transient", reason=LOST, kind="lost", blamed=True)
    return failure


def lost_attempt(blame: str = "", held_by: str = "") -> tuple[AttemptLostError, Failure]:
    """The error and the failure of an attempt whose worker is gone.

    blame: why the attempt itself caused that. held_by: where the flow's own code caused it.
    """
    if held_by and not blame:
        reason = (
            "not the attempt's fault: the flow's own code blocked its worker for a whole lease, before the outcome of "
            f"the attempt was recorded ({held_by})"
        )
        error = AttemptLostError("the worker that made the attempt lost its lease: the flow's own code blocked it")
    else:
        reason = LOST
        error = AttemptLostError("the worker that made the attempt is gone" + (f": {blame}" if blame else ""))
    failure = Failure(
        category="transient",
        reason=reason,
        kind="lost",
        type=lineage(AttemptLostError)[0],
        lineage=lineage(AttemptLostError),
        message=redact(str(error), 500),
        blamed=bool(blame),
        error=error,
    )
    return error, failure


def snooze_seconds(item: Item, error: BaseException, failure: Failure, dice: Dice) -> float | None:
    """Seconds after which an attempt that does not count is made again; None when it counts.

    The action raised Snooze, or met an open circuit: nothing was sent, and a retry before the probe would be wasted.
    """
    if isinstance(error, Snooze):
        seconds = error.seconds
    elif isinstance(error, CircuitOpenError) and is_retried(item.policy, failure):
        seconds = error.retry_in + SPREAD * dice()
    else:
        return None
    return min(max(seconds, SHORTEST_SNOOZE), LONGEST_WAIT)


def gave_up_at_deadline(item: Item, at: float) -> ItemGaveUp:
    """Return the event for an item whose next attempt would begin after the deadline."""
    deadline, began = item.policy.deadline or 0.0, item.started_at or at
    last = item.failures[-1].event if item.failures else None
    if last is not None:
        failure, error = last.failure, last.error
    else:
        snoozed = DeadlineExceededError(deadline)
        failure, error = structs.replace(classify(snoozed, at), error=None, lineage=()), store_error(snoozed)
    left = began + deadline - at
    detail = f"the {deadline:g} s for all attempts were over when the next one could begin"
    return _gave_up(item, failure, error, "deadline", detail, left)


def gave_up_by_hand(item: Item, refused: Exception, at: float) -> ItemGaveUp:
    """Return the event for an item whose manual result is invalid: the item fails instead of being retried."""
    failure = structs.replace(classify(refused, at, poison=True), error=None, lineage=())
    return _gave_up(item, failure, store_error(refused), "permanent", str(refused))


def _gave_up(
    item: Item,
    failure: Failure,
    error: StoredError,
    kind: GiveUpKind,
    detail: str,
    deadline_left: float | None = None,
) -> ItemGaveUp:
    because = Because(
        rule="none",
        category=failure.category,
        reason=failure.reason,
        failure_kind=failure.kind,
        attempt=item.attempt,
        attempts=item.policy.attempts,
        deadline_left=deadline_left,
        detail=detail,
    )
    return ItemGaveUp(item=item.number, failure=failure, error=error, decision=GiveUp(kind, because))
