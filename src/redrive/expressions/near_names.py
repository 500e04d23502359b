"""Guesses which known name a misspelt one was meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

# Bounds the time, however many names are known.
_MOST_COMPARED = 200
_LONGEST = 64


def near_name(name: str, known: Iterable[str]) -> str:
    """The known name most like this one; empty when none is similar."""
    if len(name) > _LONGEST:
        return ""
    likely = (one for one in known if abs(len(one) - len(name)) <= len(name))
    return next(iter(get_close_matches(name, [*islice(likely, _MOST_COMPARED)], n=1)), "")


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A question about the known name most like this one; `otherwise` when none is similar."""
    close = near_name(name, known)
    return f"did you mean {close!r}?" if close else otherwise
