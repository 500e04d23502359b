"""Run storms: `python -m tests.chaos`, or `make chaos`. Exits with 1 if one of them has a finding."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from tests.chaos.storm import Plan, run_storm

ALL = (
    Plan(store="postgres", seed=1, flows=10_000, workers=8, seconds=120.0),
    Plan(store="sqlite", seed=2, flows=5_000, workers=4, seconds=90.0),
    Plan(store="postgres", seed=3, flows=3_000, workers=4, seconds=40.0, handlers=False, failover=True),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "postgres"], help="only storms on this store")
    parser.add_argument("--seed", type=int, help="the seed to run again; default: those of the list")
    parser.add_argument("--flows", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--seconds", type=float, help="how long the faults go on")
    parser.add_argument("--lease", type=float)
    parser.add_argument("--pause", type=float, help="seconds between two faults, on average")
    parser.add_argument("--without", action="append", default=[], metavar="FAULT", help="leave a fault out; repeatable")
    parser.add_argument("--failover", action="store_true", default=None, help="PostgreSQL only")
    parser.add_argument("--no-handlers", dest="handlers", action="store_false", default=None)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs and files there")
    given = parser.parse_args()
    chosen = {
        name: value
        for name in ("seed", "flows", "workers", "seconds", "lease", "pause", "handlers", "failover")
        if (value := getattr(given, name)) is not None
    }
    findings = 0
    for plan in ALL:
        if given.store in (None, plan.store):
            report = run_storm(replace(plan, **chosen, without=tuple(given.without)), given.keep)
            print(report, flush=True)  # noqa: T201 - what it is for
            findings += len(report.findings)
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
