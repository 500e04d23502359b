"""The HTTP server: `redrive serve`. It needs the extra `server`, and is loaded only when it is used."""
