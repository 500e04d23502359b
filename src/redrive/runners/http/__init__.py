"""Carry out one attempt of an HTTP step: send the inputs, and interpret the answer."""
