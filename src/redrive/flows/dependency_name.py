"""The name of what an action or a step talks to."""

from redrive.failures.redaction import redact

LONGEST_DEPENDENCY = 200


def is_dependency_name(given: object) -> bool:
    return isinstance(given, str) and 0 < len(given) <= LONGEST_DEPENDENCY and given.isprintable()


def dependency_name(given: object) -> str:
    """Return the name as it is stored and shown: it may be an address, whose password is left out."""
    if not isinstance(given, str) or not is_dependency_name(given):
        raise ValueError(
            f"dependency: {given!r} is not allowed; use a name such as 'payments', of at most {LONGEST_DEPENDENCY} "
            "characters"
        )
    return redact(given)
