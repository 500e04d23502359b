"""Classification of exception groups: several failures that happened together."""

from collections.abc import Sequence

import msgspec

from redrive.failures.failure import Failure

_LONGEST_LISTING = 5


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the errors of a group and of the groups nested in it, in order."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting:
        error = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(reversed(error.exceptions))
        else:
            found.append(error)
    return found


def failure_of_group(group: Failure, parts: Sequence[Failure]) -> Failure:
    """Classify a group by its parts: it is transient only if all of them are."""
    permanent = [part for part in parts if part.category == "permanent"]
    unknown = [part for part in parts if part.category == "unknown"]
    if permanent:
        category, deciding = permanent[0].category, permanent
        reason = f"{_share(permanent, parts)} permanent: {_listed(permanent)}"
    elif unknown:
        category, deciding = unknown[0].category, unknown
        reason = f"{_share(unknown, parts)} not classified: {_listed(unknown)}"
    else:
        category, deciding = "transient", list(parts)
        reason = f"all {len(parts)} errors in the group are transient: {_listed(parts)}"
    asked = [part for part in parts if part.retry_after is not None]
    longest = max(asked, key=lambda part: part.retry_after or 0.0, default=None)
    statuses = {part.status for part in deciding}
    return msgspec.structs.replace(
        group,
        category=category,
        reason=reason,
        status=statuses.pop() if len(statuses) == 1 else None,
        retry_after=longest.retry_after if longest else None,
        retry_after_note="; ".join(dict.fromkeys(part.retry_after_note for part in parts if part.retry_after_note)),
        not_sent=all(part.not_sent for part in parts),
        marked_permanent=any(part.marked_permanent for part in parts),
    )


def _share(some: Sequence[Failure], parts: Sequence[Failure]) -> str:
    return f"{len(some)} of the {len(parts)} errors in the group {'is' if len(some) == 1 else 'are'}"


def _listed(parts: Sequence[Failure]) -> str:
    listed = list(dict.fromkeys(f"{part.type} ({part.reason})" for part in parts))
    more = f", and {len(listed) - _LONGEST_LISTING} more" if len(listed) > _LONGEST_LISTING else ""
    return "; ".join(listed[:_LONGEST_LISTING]) + more
