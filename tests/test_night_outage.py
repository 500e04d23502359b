"""The benchmark of a night's outage measures what it says, and no flow is lost; here the night is half an hour."""

import asyncio

import pytest
from benchmarks.night_outage import CASES, Result, measured, values

NIGHT = 1800.0
FLOWS = 40
# What waits longest has just failed when the service comes back, and may be refused once more.
LONGEST = 1200.0


def figures(with_dependency: bool) -> tuple[Result, dict[str, float]]:
    result = asyncio.run(measured(with_dependency, FLOWS, NIGHT))
    names = [case.name for case in CASES]
    return result, dict(zip(names, values(result, FLOWS), strict=True))


@pytest.mark.promise("L1")
def test_all_flows_outlast_the_outage_and_come_back_spread_out() -> None:
    alone, figures_alone = figures(with_dependency=False)
    guarded, figures_guarded = figures(with_dependency=True)
    for result, found in ((alone, figures_alone), (guarded, figures_guarded)):
        assert result.completed == FLOWS
        assert found["lost"] == 0
        assert found["needed_s"] <= found["done_s"] <= LONGEST
        assert found["half_s"] <= found["done_s"]
        assert sum(result.server.in_second.values()) == result.server.count.done + result.server.count.refused
        # A herd would be all of them at once.
        assert found["peak_per_s"] < FLOWS / 4
    # The circuit lets a probe through now and then, and nothing else.
    assert figures_guarded["attempts"] < figures_alone["attempts"] / 4
