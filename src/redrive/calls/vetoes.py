"""Vetoes: an inner call keeps the enclosing call from repeating work that must not be repeated.

The enclosing call owns the retries, but it sees only the error. So an inner call that would not retry marks the error:
"unsafe" if the work is not idempotent and may have taken effect, "never" if the inner policy never retries it. The mark
names the enclosing call, so it has no effect if the same error object is raised again in another one.
"""

from typing import Literal

from redrive.calls.error_links import linked_errors
from redrive.failures.known_errors.entries import attribute

Veto = Literal["unsafe", "never"]

MARK = "redrive_veto"


def veto(subject: object, why: Veto, enclosing: object) -> None:
    """Mark an error, or a response that counts as a failure, for the enclosing call."""
    try:
        object.__setattr__(subject, MARK, (why, enclosing))
    except Exception:  # noqa: BLE001 - the class takes no attributes, so it cannot be marked
        return


def veto_on(error: BaseException, call: object) -> Veto | None:
    """Return the veto for `call` on the error, on an error it contains, or on the response of one of them."""
    for link in linked_errors(error, handled=True):
        for subject in (link, attribute(link, "response")):
            mark = attribute(subject, MARK)
            if isinstance(mark, tuple) and mark[1] is call:
                why: Veto = mark[0]
                return why
    return None


def carry_veto(source: object, target: object) -> None:
    """Copy a veto, for example from a response to the status error that is raised for it."""
    mark = attribute(source, MARK)
    if isinstance(mark, tuple):
        veto(target, mark[0], mark[1])
