"""The other side of an HTTP step: serve Python functions to the engine."""
