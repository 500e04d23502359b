"""One stream of events; logs, metrics and your hooks listen to it."""
