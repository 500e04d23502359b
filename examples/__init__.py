"""Examples that run: `make demo` (or `python -m examples.demo`), and `python -m examples.guarded_calls`."""
