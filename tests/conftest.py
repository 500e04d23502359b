"""Settings for all tests."""

import functools
import ssl

from hypothesis import HealthCheck, settings

# CI machines are shared and slow at times; a rule that holds does so whatever the clock says.
settings.register_profile("redrive", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.load_profile("redrive")

# Every HTTP client reads all certificates of the world, which takes longer than most tests; no test needs its own.
ssl.create_default_context = functools.cache(ssl.create_default_context)  # type: ignore[assignment]  # its arguments hash
