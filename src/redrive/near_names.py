"""Finds the known name that a misspelled one was probably meant to be, for every "did you mean"."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice

CUT_OFF = 0.65
"""How alike two names must be, from 0 to 1."""
CUT_OFF_OF_SHORT = 0.75
"""The same for names of up to four characters, of which any two share some."""
NEARLY_THE_SAME = 0.93
"""How alike a slip of the fingers is. Names of classes are alike that mean different things, such as ConnectError."""
_SHORT = 4
# Bounds the time, however many names are known.
_MOST_COMPARED = 1000
_LONGEST = 64

# What other libraries call it -> our words for it, of which the first that is known here is meant. Such a name may be
# more like a setting that means something else: `retries` is not `timeout_retries`.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("retries", "max_retries", "num_retries", "total"), ("retry", "attempts")),
    **dict.fromkeys(("tries", "max_tries", "max_attempts", "maximum_attempts", "stop"), ("attempts", "retry")),
    **dict.fromkeys(("timeout", "attempt_timeout", "call_timeout", "time_limit"), ("timeout", "attempt_timeout")),
    **dict.fromkeys(("delay", "wait", "interval", "base_delay", "initial_delay", "countdown"), ("backoff",)),
    **dict.fromkeys(
        ("max_delay", "max_interval", "max_wait", "max_backoff", "cap", "retry_backoff_max"),
        ("max_wait", "max_backoff"),
    ),
    **dict.fromkeys(("max_time", "max_elapsed", "max_elapsed_time", "total_timeout"), ("deadline",)),
    **dict.fromkeys(("exceptions", "on", "retry_for", "autoretry_for", "exception_types"), ("retry_on",)),
}


def near_name(name: str, known: Iterable[str], cut_off: float | None = None) -> str:
    """Return the known name that was probably meant, never the name itself; empty when none is similar."""
    if not name or len(name) > _LONGEST:
        return ""
    candidates = [one for one in islice(known, _MOST_COMPARED) if one != name]
    for synonym in _SYNONYMS.get(name, ()):
        if synonym in candidates:
            return synonym
    plain = _plain(name)
    least = cut_off or (CUT_OFF_OF_SHORT if len(plain) <= _SHORT else CUT_OFF)
    best, most = "", 0.0
    matcher = SequenceMatcher(None, "", plain)
    for one in candidates:
        other = _plain(one)
        # Letters in another order: a slip of the fingers, however short the name is.
        alike = 0.99 if sorted(other) == sorted(plain) else 0.0
        if not alike:
            matcher.set_seq1(other)
            if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
                continue
            alike = matcher.ratio()
        alike = 1.0 if other == plain else alike
        # Few people mistype the first letter.
        alike += 0.001 * (other[:1] == plain[:1])
        if alike >= least and alike > most:
            best, most = one, alike
    return best


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a question about the known name that was probably meant; `otherwise` when none is similar."""
    close = near_name(name, known)
    return f"did you mean {close!r}?" if close else otherwise


def unknown_setting(what: str, given: Iterable[str], known: Iterable[str]) -> TypeError:
    """Return the error about a keyword that a function does not have."""
    name, known = next(iter(given)), tuple(known)
    return TypeError(f"{what}: {name!r} is not a setting; {did_you_mean(name, known, 'use ' + ', '.join(known))}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").strip("_")
