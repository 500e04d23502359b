"""Connections and what they may take: HTTP, TLS, deadlines, room for bodies, rates."""
