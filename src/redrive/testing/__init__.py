"""For your own tests: a virtual clock, scripted dice, no waits, and servers that fail as told.

    from redrive.testing import virtual_clock

    def test_gives_up_after_three_attempts():
        with virtual_clock() as clock:
            with pytest.raises(ConnectionError):
                fetch()
            assert clock.waits == [0.5, 1.0]

Each of them holds for the current context (and the tasks and threads that inherit it), so tests that run in parallel
do not disturb each other.
"""

from redrive.testing.flaky_server import FlakyServer, Reply
from redrive.testing.in_context import no_waits, scripted_dice, virtual_clock
from redrive.testing.no_waits import NoWaits
from redrive.testing.scripted_dice import ScriptedDice
from redrive.testing.virtual_clock import VirtualClock

__all__ = [
    "FlakyServer",
    "NoWaits",
    "Reply",
    "ScriptedDice",
    "VirtualClock",
    "no_waits",
    "scripted_dice",
    "virtual_clock",
]
