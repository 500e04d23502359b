"""Which name was probably meant, in a time that does not depend on how many there are."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_MOST_LOOKED_AT = 200
_LONGEST = 64


def near_name(name: str, known: Iterable[str]) -> str:
    """The known name that is most like it; empty when none is."""
    if len(name) > _LONGEST:
        return ""
    likely = (one for one in known if abs(len(one) - len(name)) <= len(name))
    return next(iter(get_close_matches(name, [*islice(likely, _MOST_LOOKED_AT)], n=1)), "")
