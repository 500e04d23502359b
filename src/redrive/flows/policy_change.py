"""What a change of policy makes of the policy of a work item."""

from contextlib import suppress
from typing import Any

import msgspec

from redrive.errors import NotationError
from redrive.flows.messages import ChangePolicy
from redrive.flows.retry_policy import Retry, as_policy
from redrive.flows.stored_policy import read_stored_policy, write_stored_policy
from redrive.notation.formats.native import KEYS
from redrive.notation.source import load_document
from redrive.policies.policy import Policy


def policy_change(retry: Retry, step: str, by: str, why: str) -> ChangePolicy:
    """The message for what a user writes. PolicyError or NotationError for what is not a policy."""
    policy = as_policy(retry)
    fields = _named_fields(retry) if isinstance(retry, str) else None
    if fields is not None:
        return ChangePolicy(policy=msgspec.Raw(msgspec.json.encode(fields)), step=step, by=by, why=why)
    return ChangePolicy(policy=write_stored_policy(policy), replaces=True, step=step, by=by, why=why)


def _named_fields(text: str) -> dict[str, Any] | None:
    """The fields that a policy in redrive's own notation names; None for another notation."""
    with suppress(NotationError):
        data = load_document(text).data
        if isinstance(data, dict) and data and set(data) <= set(KEYS):
            return data
    return None


def changed_policy(policy: Policy, change: ChangePolicy) -> Policy:
    """The policy with what the change names; NotationError where that does not fit together."""
    if change.replaces:
        return read_stored_policy(change.policy)
    before: dict[str, Any] = msgspec.json.decode(write_stored_policy(policy))
    fields: dict[str, Any] = msgspec.json.decode(change.policy)
    return read_stored_policy(msgspec.Raw(msgspec.json.encode(before | fields)))
