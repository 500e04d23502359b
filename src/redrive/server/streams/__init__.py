"""Server-sent events: the events of a flow, and live snapshots of resources."""
