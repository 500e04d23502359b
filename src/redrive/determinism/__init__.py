"""Time, chance and ids: the only room that touches the clock, `random` and `uuid`."""
