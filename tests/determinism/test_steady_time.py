"""The time of flows follows the machine's clock, and never goes back."""

import logging
import time

import pytest

from redrive.determinism.steady_time import SteadyTime

HOUR = 3600.0


class Machine:
    """A machine whose clock can be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.up = 1_000_000.0, 500.0
        monkeypatch.setattr(time, "time", lambda: self.wall)
        monkeypatch.setattr(time, "monotonic", lambda: self.up)

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_the_clock_is_followed_forward_at_once(machine: Machine) -> None:
    steady = SteadyTime()
    machine.run(10)
    assert steady.now() == machine.wall
    # Someone sets it, or the machine slept.
    machine.wall += HOUR
    assert steady.now() == machine.wall


@pytest.mark.parametrize("readings", [1, 7, 1000])
def test_a_clock_that_is_set_back_neither_stops_the_time_nor_hurries_it(machine: Machine, readings: int) -> None:
    steady = SteadyTime()
    began = steady.now()
    machine.wall -= HOUR
    for reading in range(1, readings + 1):
        machine.run(100 / readings)
        assert steady.now() == pytest.approx(began + 90 * reading / readings)
    # They agree again after ten hours, and from then on.
    machine.run(9 * HOUR)
    assert steady.now() > machine.wall
    machine.run(HOUR)
    assert steady.now() == machine.wall


def test_an_hour_set_back_is_logged_once_and_the_steps_of_ntp_are_not(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    steady = SteadyTime()
    with caplog.at_level(logging.WARNING, "redrive"):
        machine.wall -= 0.2
        steady.now()
        assert caplog.text == ""
        machine.wall -= HOUR
        for _ in range(3):
            machine.run(1)
            steady.now()
    assert caplog.text.count("the clock of this machine was set back by 3600 s; flows keep their own time") == 1


def test_the_time_of_another_process_is_followed_where_it_is_ahead(machine: Machine) -> None:
    steady = SteadyTime()
    steady.keep_up_with(machine.wall - machine.up - HOUR)
    assert steady.now() == machine.wall
    steady.keep_up_with(machine.wall - machine.up + HOUR)
    machine.run(10)
    assert steady.now() == pytest.approx(machine.wall + HOUR - 1)
