"""Put a policy into a line."""

import contextlib
from typing import Any

import msgspec

from redrive.errors import NotationError
from redrive.flows.stored_policy import read_stored_policy
from redrive.notation.write import write_policy

_FIELDS = ("attempts", "backoff", "jitter", "max_wait", "deadline")


def describe_policy(policy: dict[str, Any]) -> str:
    """The part of a policy that says how often and how long; of one with rules, all of it, since they say that."""
    if policy.get("rules"):
        stored = read_stored_policy(msgspec.Raw(msgspec.json.encode(policy)))
        with contextlib.suppress(NotationError):
            return " ".join(write_policy(stored, "brackets").split())
    return ", ".join(f"{field} {policy[field]}" for field in _FIELDS if field in policy)
