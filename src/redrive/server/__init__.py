"""The HTTP API of `redrive serve`. It needs the extra `server`, and is loaded only when used."""
