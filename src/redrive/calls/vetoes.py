"""What an inner call forbids the calls around it: to repeat what must not be repeated.

An enclosing call owns the retries, but it sees only the error. So an inner call that would not retry leaves a mark:
"unsafe" when it is not idempotent and may have taken effect, "never" when its policy says never to retry this. The
mark names the enclosing call: the same error object, raised again elsewhere, means nothing there.
"""

from typing import Literal

from redrive.calls.error_links import linked_errors
from redrive.failures.known_errors.entries import attribute

Veto = Literal["unsafe", "never"]

MARK = "redrive_veto"


def veto(what: object, why: Veto, enclosing: object) -> None:
    """Mark an error, or a response that is a failure, for the enclosing call."""
    try:
        object.__setattr__(what, MARK, (why, enclosing))
    except Exception:  # noqa: BLE001 - a class that takes no attributes; there is nothing else to hold on to
        return


def veto_on(error: BaseException, call: object) -> Veto | None:
    """The mark for `call` on the error, on an error it carries, or on the response that one of them is about."""
    for link in linked_errors(error, handled=True):
        for subject in (link, attribute(link, "response")):
            mark = attribute(subject, MARK)
            if isinstance(mark, tuple) and mark[1] is call:
                why: Veto = mark[0]
                return why
    return None


def carry_veto(source: object, target: object) -> None:
    """Put the mark of one thing (a response, say) on another that stands for it (the status error about it)."""
    mark = attribute(source, MARK)
    if isinstance(mark, tuple):
        veto(target, mark[0], mark[1])
