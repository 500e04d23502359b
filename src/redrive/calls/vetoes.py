"""What an inner call forbids the calls around it: to repeat what must not be repeated.

An enclosing call owns the retries, but it sees only the error. So an inner call that would not retry leaves a mark:
"unsafe" when it is not idempotent and may have taken effect, "never" when its policy says never to retry this.
"""

from typing import Literal

from redrive.failures.known_errors.entries import attribute

Veto = Literal["unsafe", "never"]

MARK = "redrive_veto"

# How far back the mark is looked for when errors are raised from others.
LONGEST_CHAIN = 10


def veto(what: object, why: Veto) -> None:
    """Mark an error, or a response that is a failure."""
    try:
        object.__setattr__(what, MARK, why)
    except Exception:  # noqa: BLE001 - a class that takes no attributes; there is nothing else to hold on to
        return


def veto_on(error: BaseException) -> Veto | None:
    """The mark on the error, on the response it is about, or on an error it was raised from."""
    link: BaseException | None = error
    for _ in range(LONGEST_CHAIN):
        if link is None:
            return None
        found: Veto | None = attribute(link, MARK) or attribute(attribute(link, "response"), MARK)
        if found in ("unsafe", "never"):
            return found
        link = link.__cause__
    return None
