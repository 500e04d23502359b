"""The errors that an error contains: its cause, its context, and the members of a group."""

from collections.abc import Iterator

from redrive.errors import CircuitOpenError

# Errors can be wrapped without limit; only the first ones are inspected.
MOST_LINKS = 50


def linked_errors(error: BaseException, *, handled: bool) -> Iterator[BaseException]:
    """Yield the error, then the errors it contains; with `handled`, also those it was raised while handling."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending and len(seen) < MOST_LINKS:
        link = pending.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        pending.append(link.__cause__)
        if handled:
            pending.append(link.__context__)
        if isinstance(link, BaseExceptionGroup):
            pending.extend(link.exceptions[:MOST_LINKS])


def refusal_inside(error: BaseException) -> CircuitOpenError | None:
    """Return the refusal of an inner call's circuit that the error is, contains, or was raised from."""
    for link in linked_errors(error, handled=False):
        if isinstance(link, CircuitOpenError):
            return link
    return None
