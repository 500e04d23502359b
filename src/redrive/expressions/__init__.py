"""A small safe expression language, used by graph conditions and by scripts."""
