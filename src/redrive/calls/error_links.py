"""The errors that an error carries: what it was raised from, what it was raised while handling, members of a group."""

from collections.abc import Iterator

# Wrapping has no natural end; an error that carries more than this is looked at in part.
MOST_LINKS = 50


def linked_errors(error: BaseException, *, handled: bool) -> Iterator[BaseException]:
    """The error itself, then those it carries. `handled`: also those it was raised while handling (`__context__`)."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_LINKS:
        link = waiting.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting.append(link.__cause__)
        if handled:
            waiting.append(link.__context__)
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(link.exceptions[:MOST_LINKS])
