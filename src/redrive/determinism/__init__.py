"""Time, randomness and ids: the only package that uses `time`, `random` and `uuid`."""
