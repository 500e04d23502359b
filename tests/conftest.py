"""Settings for all tests."""

from hypothesis import HealthCheck, settings

# CI machines are shared and slow at times; a rule that holds does so whatever the clock says.
settings.register_profile("redrive", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.load_profile("redrive")
