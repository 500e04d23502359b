"""No attempts while what a stage talks to is down."""

from redrive.pipeline.interceptors.base import StatelessInterceptor
from redrive.resilience.circuit import CircuitSettings


class CircuitBreakerInterceptor(StatelessInterceptor):
    """Refuses attempts with CircuitOpenError after some consecutive failures, until a probe has succeeded.

    Each attempt counts once. The circuit belongs to the stage of the pipeline, in all its runs; stages that name
    a `dependency` share that one's, with its settings, and its retry budget. Without settings it opens after
    5 failures, or as many as the stage may make attempts where these are more.
    """

    name = "circuit_breaker"
    priority = 10

    def __init__(self, settings: CircuitSettings | None = None) -> None:
        self.settings = settings

    def settings_for(self, attempts: int | None) -> CircuitSettings:
        if self.settings is not None:
            return self.settings
        usual = CircuitSettings()
        return usual if attempts is None or attempts <= usual.failures else CircuitSettings(failures=attempts)
