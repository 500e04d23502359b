"""Raises what was caught elsewhere, or earlier, as it was."""

from typing import NoReturn


def raise_as_it_is(error: BaseException) -> NoReturn:
    """Raise an error that was caught, with what it was raised while handling.

    Python would put there what the caller is handling, which is further down in that chain already.
    """
    context = error.__context__
    try:
        raise error
    finally:
        if context is not None:
            # Not by the error's own way of setting attributes, which may be anything.
            BaseException.__setattr__(error, "__context__", context)
        # The error's traceback holds this frame: do not hold the error in turn.
        del error, context
