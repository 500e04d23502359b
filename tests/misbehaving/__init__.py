"""Servers that misbehave, for every test that makes a client fail."""
