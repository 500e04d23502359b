"""Re-raise an error that was caught elsewhere without changing its context."""

from typing import NoReturn


def raise_as_it_is(error: BaseException) -> NoReturn:
    """Raise an error that was caught before, and keep its `__context__`.

    Python would replace it by the error that the caller is handling, which is in that chain already.
    """
    context = error.__context__
    try:
        raise error
    finally:
        if context is not None:
            # Bypass the error's own __setattr__, which may do anything.
            BaseException.__setattr__(error, "__context__", context)
        # The error's traceback references this frame: do not reference the error in turn.
        del error, context
