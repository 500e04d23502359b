"""Read requests: bodies, queries, cursors, and the flows that they start or select."""
