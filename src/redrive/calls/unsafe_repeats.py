"""What an enclosing call must know of a failure inside it: the work may have taken effect, and twice would do harm.

An inner call that is not idempotent makes no retry of its own after an ambiguous failure. Without a mark, the call
around it would see only a failure that passes, and do the work again.
"""

MARK = "redrive_unsafe_to_repeat"

# How far back the mark is looked for when errors are wrapped in others.
LONGEST_CHAIN = 10


def mark_unsafe(what: object) -> None:
    """Mark an error, or a response that is a failure."""
    try:
        setattr(what, MARK, True)
    except (AttributeError, TypeError):
        # Some classes refuse attributes; there is nothing else to hold on to.
        return


def is_unsafe(error: BaseException) -> bool:
    """Whether the error, the response it is about, or an error it was raised from carries the mark."""
    link: BaseException | None = error
    for _ in range(LONGEST_CHAIN):
        if link is None:
            return False
        if getattr(link, MARK, False) is True or getattr(getattr(link, "response", None), MARK, False) is True:
            return True
        link = link.__cause__
    return False
