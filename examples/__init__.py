"""Examples that run: `python -m examples.guarded_calls`, and handlers of HTTP steps in Python and JavaScript."""
