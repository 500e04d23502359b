"""From how an attempt ended to the failure that `decide()` is asked about."""

from msgspec import structs

from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.failures.failure import Failure
from redrive.failures.matching import lineage
from redrive.failures.signals import AttemptLost

LOST = "what ran it is gone, and nobody knows how the attempt ended"


def failure_from(error: BaseException, wall_now: float, *, timed_out: bool = False, poison: bool = False) -> Failure:
    failure = DEFAULT_CLASSIFIER.failure_of(error, wall_now, timed_out)
    if poison:
        return structs.replace(failure, category="permanent", reason="no attempt can end otherwise", poison=True)
    if isinstance(error, AttemptLost):
        # The process of the attempt died: as when its worker does.
        return structs.replace(failure, category="transient", reason=LOST, kind="lost")
    return failure


def lost_attempt(worker: str) -> tuple[AttemptLost, Failure]:
    """An attempt whose worker is gone."""
    error = AttemptLost(f"the worker that made the attempt is gone{worker}")
    failure = Failure(
        category="transient",
        reason=LOST,
        kind="lost",
        type=lineage(AttemptLost)[0],
        lineage=lineage(AttemptLost),
        message=str(error),
        error=error,
    )
    return error, failure
