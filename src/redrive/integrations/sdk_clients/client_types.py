"""Recognise the clients of an SDK without importing it, and refuse everything else in the same words."""


def derives_from(client: object, *names: str) -> bool:
    """Whether the client's class, or one of its bases, has one of these qualified names."""
    return any(f"{base.__module__}.{base.__qualname__}" in names for base in type(client).__mro__)


def refuse(client: object, library: str, accepted: str) -> TypeError:
    """Return the error for something that `owned` cannot switch off."""
    given = client.__name__ if isinstance(client, type) else type(client).__name__
    hint = "; pass the client itself, not its class" if isinstance(client, type) else ""
    return TypeError(f"{library}.owned takes {accepted}, not {given}{hint}")
