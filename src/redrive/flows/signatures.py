"""Who says something about a flow, and why."""

from redrive.flows.json_forms import is_storable


def check_signature(by: str, why: str) -> None:
    """Who says something, and why, must be text that can be stored."""
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str):
            raise TypeError(f"{name}: use a text, not {type(text).__name__}")
        if not is_storable(text):
            raise ValueError(f"{name}: use a text without NUL and halves of characters")
