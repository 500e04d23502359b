"""The limits of the server."""

import msgspec

LARGEST_PAGE = 1000


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    largest_body: int = 8 * 2**20
    """Bytes; larger request bodies are refused."""
    body_timeout: float = 60.0
    """Seconds for a request body to arrive."""
    rate: float = 200.0
    """Requests per second for each key, or for each address without one."""
    burst: int = 400
    """Requests that may come at once before `rate` applies."""
    streams: int = 100
    """Event streams that may be open at once."""
    poll: float = 0.25
    """Seconds between a stream's looks for new events."""
    heartbeat: float = 15.0
    """Seconds of silence after which a stream sends a comment to keep the connection open."""
    key_cache: float = 2.0
    """Seconds for which the store's API keys are cached."""
