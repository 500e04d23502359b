"""SDKs that retry by themselves, inside a guarded call: how many requests arrive at the server."""
