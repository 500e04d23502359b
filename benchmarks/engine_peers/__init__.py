"""How each system does the work that `benchmarks.engine` measures: one file a system, run in a process of its own."""
