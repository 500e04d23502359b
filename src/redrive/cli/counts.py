"""What this process knows, in numbers."""

from redrive.flows.registry import registered_counts

_KINDS = ("workflow", "action", "graph", "script")


def known_in_words() -> str:
    """2 workflows, 4 actions, 1 graph; kinds of which there is none are left out."""
    counts = [count_of(number, kind) for number, kind in zip(registered_counts(), _KINDS, strict=True) if number]
    return ", ".join(counts) or "no definitions"


def count_of(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
