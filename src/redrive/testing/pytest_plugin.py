"""pytest fixtures, available once redrive is installed."""

from collections.abc import Iterator

import pytest

from redrive.testing.in_context import no_waits, virtual_clock
from redrive.testing.no_waits import NoWaits
from redrive.testing.virtual_clock import VirtualClock


@pytest.fixture
def redrive_clock() -> Iterator[VirtualClock]:
    """A virtual clock for this test: waits take no real time and are recorded in `.waits`."""
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def redrive_no_waits() -> Iterator[NoWaits]:
    """The real clock for this test, with the waits between attempts skipped and recorded in `.waits`."""
    with no_waits() as clock:
        yield clock
