"""A message that a flow's commit sends to another flow."""

from typing import NamedTuple


class Sent(NamedTuple):
    """It is dropped when the other flow is gone or has ended."""

    by: str
    """The id of the flow that sends it."""
    flow_id: str
    """The id of the flow that gets it."""
    at: float
    body: str
    reopens: bool = False
    """Whether it makes a failed flow ready."""
