"""Decides whether a dependency may be called at all: circuit breakers and retry budgets, by dependency."""
