"""One stream of events, which logs, metrics and hooks listen to."""
