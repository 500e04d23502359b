"""The limits of the server."""

import msgspec

LARGEST_PAGE = 1000


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    largest_body: int = 8 * 2**20
    """Bytes; larger request bodies are refused."""
    body_timeout: float = 60.0
    """Seconds for a request body to arrive."""
    body_grace: float = 10.0
    """Seconds after which a request body must have arrived at `body_rate`."""
    body_rate: float = 4096.0
    """Bytes per second at which a request body must arrive, at least."""
    bodies: int = 64 * 2**20
    """Bytes of request bodies that the server holds at once; the first 64 KiB of each body are not counted."""
    bodies_per_caller: int = 16 * 2**20
    """The share of these that one key may have, or one address without a key."""
    bodies_patience: float = 5.0
    """Seconds that a request waits until there is room for its body; then it is turned away."""
    header_timeout: float = 10.0
    """Seconds for the headers of a request to arrive, and for a TLS handshake."""
    write_timeout: float = 30.0
    """Seconds after which a client that reads nothing of its response is disconnected."""
    linger: float = 5.0
    """Seconds for which the rest of a body is read after the response has been sent."""
    connections: int = 2000
    """Connections that may be open at once."""
    connections_per_peer: int = 500
    """The share of these that one address may have."""
    reserve: int = 50
    """Connections beyond these, for health checks only."""
    rate: float = 200.0
    """Requests per second for each key, or for each address without one."""
    burst: int = 400
    """Requests that may come at once before `rate` applies."""
    streams: int = 100
    """Event streams that may be open at once."""
    streams_per_caller: int = 25
    """The share of these that one key may have, or one address without a key."""
    poll: float = 0.25
    """Seconds between a stream's looks for new events."""
    heartbeat: float = 15.0
    """Seconds of silence after which a stream sends a comment to keep the connection open."""
    live_spacing: float = 0.5
    """Seconds between two snapshots of a live view, at least."""
    live_interval: float = 1.0
    """Seconds after which a live view is looked at again, even if the store reports no change."""
    session_lifetime: float = 12 * 3600.0
    """Seconds after which a browser must sign in again."""
    failed_sign_ins: int = 10
    """Failed sign-ins a minute for each address; more are answered with 429."""
    key_cache: float = 2.0
    """Seconds for which the store's API keys are cached."""
