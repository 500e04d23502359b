"""Whether one match covers another: every failure that matches the second also matches the first."""

import builtins

from redrive.failures.matching import Match, lineage


def covers(wide: Match, narrow: Match) -> bool:
    """Whether every failure that matches `narrow` also matches `wide`, as far as names and ranges show."""
    if not narrow:
        return False
    if "any" in wide.categories:
        return True
    return (
        all(category in wide.categories for category in narrow.categories)
        and all(any(_below(kind, wide)) for kind in narrow.types)
        and all(name in wide.names or any(_below(_builtin(name), wide)) for name in narrow.names)
        and all(any(low <= first and last <= high for low, high in wide.statuses) for first, last in narrow.statuses)
        and all(predicate in wide.predicates for predicate in narrow.predicates)
    )


def _below(kind: type[BaseException] | None, wide: Match) -> list[bool]:
    """Say for each class that `wide` names whether `kind` is that class or derives from it."""
    if kind is None:
        return []
    names = lineage(kind)
    return [*(issubclass(kind, other) for other in wide.types), *(name in names for name in wide.names)]


def _builtin(name: str) -> type[BaseException] | None:
    kind = getattr(builtins, name.removeprefix("builtins."), None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None
