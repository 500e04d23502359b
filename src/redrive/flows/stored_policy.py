"""Read and write the policy of a work item in the log, in redrive's own notation."""

from typing import Any

import msgspec

from redrive.errors import NotationError
from redrive.notation.formats.native import as_data, read
from redrive.notation.place import Place
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy, policy_error

# A few policies serve all items, so both directions are cached.
_MOST_CACHED = 1000
_written: dict[int, tuple[Policy, msgspec.Raw]] = {}
_read: dict[bytes, Policy] = {}
_of_raw: dict[int, tuple[msgspec.Raw, Policy]] = {}
"""By the id of what `write_stored_policy` returned: items that were just scheduled need not be parsed again."""

DURABLE_DEFAULT = Policy(
    attempts=None,
    backoff=Backoff("exponential", 1.0),
    jitter=Jitter("equal"),
    max_wait=600.0,
    deadline=86_400.0,
    max_retry_after=3600.0,
)
"""The policy of durable work that names none: transient failures are retried for a day, at least every ten minutes,
so that a dependency that is down for a night costs nobody a flow."""


def write_stored_policy(policy: Policy) -> msgspec.Raw:
    """The policy as the log keeps it; raises PolicyError for one that holds Python code, such as a predicate."""
    known = _written.get(id(policy))
    if known is not None:
        return known[1]
    try:
        data = as_data(policy)
    except NotationError as error:
        raise policy_error("retry", policy, f"a durable policy cannot hold Python code: {error}") from None
    raw = msgspec.Raw(msgspec.json.encode(data))
    if len(_written) > _MOST_CACHED:
        _written.clear()
        _of_raw.clear()
    _written[id(policy)] = (policy, raw)
    _of_raw[id(raw)] = (raw, policy)
    return raw


def read_stored_policy(raw: msgspec.Raw) -> Policy:
    known = _of_raw.get(id(raw))
    if known is not None and known[0] is raw:
        return known[1]
    text = bytes(raw)
    policy = _read.get(text)
    if policy is None:
        if len(_read) > _MOST_CACHED:
            _read.clear()
        data: Any = msgspec.json.decode(text)
        if isinstance(data, dict) and data.get("attempts") == 0:
            # Not a valid policy to write; stored ones allow only the first attempt.
            data["attempts"] = 1
        policy = _read[text] = read(data, Place("stored policy")).policy
    return policy
