"""The testing kit: a virtual clock, scripted dice, skipped waits, flaky servers, and workers that can be killed.

    from redrive.testing import virtual_clock

    def test_gives_up_after_three_attempts():
        with virtual_clock() as clock:
            with pytest.raises(ConnectionError):
                fetch()
            assert clock.waits == [0.5, 1.0]

    def test_billing_survives():
        assert run_flow(Billing.call(user="u1")).waits == [60, 120]
        crash_everywhere(Billing.call(user="u1"))

Clocks and dice apply to the current context, and to the tasks and threads that inherit it, so tests that run in
parallel do not affect each other.
"""

from typing import TYPE_CHECKING, Any

from redrive.testing.flaky_server import FlakyServer, Reply
from redrive.testing.in_context import no_waits, scripted_dice, virtual_clock
from redrive.testing.no_waits import NoWaits
from redrive.testing.scripted_dice import ScriptedDice
from redrive.testing.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from redrive.testing.crash_points import Execution
    from redrive.testing.crash_runs import CrashedRun, crash_everywhere
    from redrive.testing.fleet.fate import Faults
    from redrive.testing.fleet.simulate import FleetReport, simulate_fleet
    from redrive.testing.flow_outcome import FlowOutcome
    from redrive.testing.flows import FlowApp, flow_app, run_flow
    from redrive.testing.replays import assert_replays

__all__ = [
    "CrashedRun",
    "Execution",
    "Faults",
    "FlakyServer",
    "FleetReport",
    "FlowApp",
    "FlowOutcome",
    "NoWaits",
    "Reply",
    "ScriptedDice",
    "VirtualClock",
    "assert_replays",
    "crash_everywhere",
    "flow_app",
    "no_waits",
    "run_flow",
    "scripted_dice",
    "simulate_fleet",
    "virtual_clock",
]

# pytest imports this package with the plugin, so the durable engine is imported only when it is used.
_DURABLE = {
    "CrashedRun": "crash_runs",
    "Execution": "crash_points",
    "Faults": "fleet.fate",
    "FleetReport": "fleet.simulate",
    "FlowApp": "flows",
    "FlowOutcome": "flow_outcome",
    "assert_replays": "replays",
    "crash_everywhere": "crash_runs",
    "flow_app": "flows",
    "run_flow": "flows",
    "simulate_fleet": "fleet.simulate",
}


def __getattr__(name: str) -> Any:
    module = _DURABLE.get(name)
    if module is None:
        raise AttributeError(f"module 'redrive.testing' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"redrive.testing.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
