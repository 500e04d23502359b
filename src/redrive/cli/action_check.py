"""Refuse definitions whose actions this process does not know."""

from collections.abc import Iterable
from difflib import get_close_matches

from redrive.cli.bad_input import BadInput


def require_actions(what: str, actions: Iterable[str], how: str) -> None:
    """Raise BadInput if one of the actions is not registered. how: how to name the module that registers it."""
    from redrive.flows.action import known_actions, unknown_actions

    missing = unknown_actions(set(actions))
    if not missing:
        return
    close = [get_close_matches(name, known_actions(), n=1) for name in missing]
    hints = [f" (did you mean {one[0]!r}?)" if one else "" for one in close]
    names = ", ".join(f"{name!r}{hint}" for name, hint in zip(missing, hints, strict=True))
    noun, them = ("action", "it") if len(missing) == 1 else ("actions", "them")
    raise BadInput(f"{what}: unknown {noun} {names}; also name the module that registers {them}: {how}")
