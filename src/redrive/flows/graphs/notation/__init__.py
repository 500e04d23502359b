"""Graphs as people write them: in YAML, JSON or Python."""
