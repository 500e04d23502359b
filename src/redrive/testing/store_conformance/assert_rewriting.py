"""Has pytest explain the suite's failed assertions; to be imported before the tests are."""

import pytest

PARTS = ("claims", "commits", "dead_letters", "flows", "inbox", "leases", "scenario", "wakes")

pytest.register_assert_rewrite(*(f"{__package__}.{part}" for part in PARTS))
