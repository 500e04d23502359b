"""Refuse attempts while the stage's dependency is down."""

from redrive.pipeline.interceptors.base import StatelessInterceptor
from redrive.resilience.circuit import CircuitSettings


class CircuitBreakerInterceptor(StatelessInterceptor):
    """Refuses attempts with CircuitOpenError after consecutive failures, until a probe succeeds.

    Each attempt counts once. All runs of a pipeline share the circuit of a stage; stages that declare the same
    `dependency` share its circuit, settings and retry budget. By default the circuit opens after 5 failures, or after
    as many as the stage has attempts if that is more.
    """

    name = "circuit_breaker"
    priority = 10

    def __init__(self, settings: CircuitSettings | None = None) -> None:
        self.settings = settings

    def settings_for(self, attempts: int | None) -> CircuitSettings:
        if self.settings is not None:
            return self.settings
        default = CircuitSettings()
        return default if attempts is None or attempts <= default.failures else CircuitSettings(failures=attempts)
