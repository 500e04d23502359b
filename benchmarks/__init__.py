"""Measurements, side by side with the peers; each module is run with `python -m`."""
