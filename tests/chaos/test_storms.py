"""Short storms; `make chaos` runs the long ones."""

import pytest
from tests.chaos.storm import Plan, run_storm


@pytest.mark.promise("X1", "X3", "X4", "X13")
@pytest.mark.parametrize(
    "plan",
    [
        Plan(store="sqlite", seed=101, flows=300, workers=2, seconds=10.0, blockers=1),
        Plan(store="postgres", seed=102, flows=400, workers=3, seconds=12.0, blockers=1),
        Plan(store="postgres", seed=103, flows=300, workers=2, seconds=8.0, blockers=0, handlers=False, failover=True),
    ],
    ids=["sqlite", "postgres", "failover"],
)
def test_a_short_storm_has_no_findings(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    report = run_storm(plan)
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201 - figures, and the seed to run it again with
    assert report.findings == []
