"""Write a policy in any notation that has a written form, and report everything that notation cannot express."""

from redrive.errors import DurationError, NotationError
from redrive.failures.matching import Match
from redrive.notation.catalogue import WRITABLE
from redrive.notation.durations import write_duration
from redrive.notation.errors import notation_error
from redrive.notation.formats.native import failures_as_texts
from redrive.notation.meaning import Answer, differences, meaning_of
from redrive.notation.read import known, read_text
from redrive.notation.reading import NamedWarning
from redrive.notation.wait_text import write_backoff, write_jitter
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy


def write_policy(policy: Policy, notation: str = "native") -> str:
    """Write the policy as text. NotationError when the notation cannot express all of it."""
    text, lost = _write(policy, notation)
    if lost:
        field, wanted, got = lost[0]
        others = f"; nor {', '.join(name for name, _, _ in lost[1:])}" if lost[1:] else ""
        raise notation_error(
            f"{notation} cannot express it{others}",
            key=field,
            value=_shown(wanted),
            allowed=f"{_shown(got)} there; a lossy conversion writes that, and warns",
            source=f"to {notation}",
        )
    return text


def write_lossy(policy: Policy, notation: str = "native") -> tuple[str, tuple[NamedWarning, ...]]:
    """Write the policy as the closest text the notation has; return it with a warning for each setting that is lost."""
    text, lost = _write(policy, notation)
    return text, tuple(
        NamedWarning("lost-" + field.rpartition(".")[2], f"{field} was {_shown(wanted)}, is {_shown(got)}", field)
        for field, wanted, got in lost
    )


def _write(policy: Policy, notation: str) -> tuple[str, list[tuple[str, object, object]]]:
    write = known(notation).write
    if write is None:
        raise notation_error(
            "can be read but not written",
            key="notation",
            value=notation,
            allowed=", ".join(WRITABLE),
            source=f"to {notation}",
        )
    try:
        text = write(policy)
    except NotationError as error:
        raise notation_error(
            error.problem, key=error.key, value=error.value, allowed=error.allowed, source=f"to {notation}"
        ) from None
    except DurationError as error:
        problem = f"cannot be written: {error}"
        raise notation_error(problem, allowed="durations from 1 ns", source=f"to {notation}") from None
    # The text is read back: whatever differs is lost, whether the writer knew it or not.
    return text, differences(meaning_of(policy), meaning_of(read_text(text, notation, notation).policy))


def _shown(value: object) -> str:
    """Return a policy's value as a person would write it."""
    if isinstance(value, Backoff):
        return write_backoff(value, "backoff")
    if isinstance(value, Jitter):
        return write_jitter(value, "jitter")
    if isinstance(value, Match):
        return ", ".join(failures_as_texts(value, "match")) or "nothing"
    if isinstance(value, float):
        return write_duration(value)
    if isinstance(value, tuple):
        matches = [_shown(one.match) for one in value if isinstance(one, Answer)]
        return f"{len(matches)} answers ({'; '.join(matches)})" if matches else "no retries"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
