"""How much the server takes on."""

import msgspec

MOST_LISTED = 1000
"""The longest page of a list."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    largest_body: int = 8 * 2**20
    """Bytes of a request; more are refused."""
    body_within: float = 60.0
    """Seconds for a body to arrive."""
    rate: float = 200.0
    """Requests a second for each key, or each peer that has none,"""
    burst: int = 400
    """and how many more may come at once."""
    streams: int = 100
    """Event streams that are open at once."""
    poll: float = 0.25
    """Seconds after which a stream looks for new events."""
    heartbeat: float = 15.0
    """Seconds of silence after which a stream says that it is still there."""
    keys_for: float = 2.0
    """Seconds for which the keys in the store are remembered."""
