"""Stores whose payloads a codec encodes on the way in, and decodes on the way out."""
