"""The durable client: the app, handles of flows, starting flows and waiting for results."""
