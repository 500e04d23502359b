"""Carry out one attempt of a step that is served over HTTP: send the inputs, read what the answer means."""
