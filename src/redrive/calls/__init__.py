"""Guards one call: decorator, Retrier, loop over attempts, fallbacks."""
