"""The event about the policies of work that is under way."""

import msgspec

from redrive.flows.event import Event
from redrive.policies.decision import RetryAt


class PolicyChanged(Event, frozen=True):
    """Someone gave open work items another retry policy: what is decided about them from now on follows it.

    Waits that were running are decided anew from the failure that they followed. An item that is not retried under the
    new policy gives up in a line of its own.
    """

    items: tuple[int, ...]
    """The items that follow it."""
    policy: msgspec.Raw
    decisions: dict[int, RetryAt] = msgspec.field(default_factory=dict)
    """Item -> the retry that it waits for now."""
    by: str = ""
    why: str = ""
