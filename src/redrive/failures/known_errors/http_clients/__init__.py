"""Errors of HTTP and WebSocket clients."""
