"""What all events of a flow's log have in common."""

import msgspec


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag=_snake):
    """An event as the log keeps it: a JSON object with its type, without the fields that have their defaults."""
