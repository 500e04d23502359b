"""Makes pytest explain the suite's failed assertions. Import it before the tests."""

import pytest

PARTS = ("claims", "commits", "dead_letters", "flows", "inbox", "leases", "registry", "scenario", "wakes")

pytest.register_assert_rewrite(*(f"{__package__}.{part}" for part in PARTS))
