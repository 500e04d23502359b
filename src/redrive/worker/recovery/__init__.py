"""Bring claimed flows back into memory: claim, replay, rebuild."""
