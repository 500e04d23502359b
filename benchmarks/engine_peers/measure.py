"""One system, in a process of its own: `python -m benchmarks.engine_peers.measure SYSTEM URL full|quick CASE ...`.

Prints a figure a line as soon as it is there.
"""

import sys
from contextlib import redirect_stdout
from importlib import import_module

import msgspec

from benchmarks.engine_peers.cases import COMMITS, FLOW_CASES, JOB_CASES
from benchmarks.engine_peers.systems import SYSTEMS, limit_of
from benchmarks.figures import Figure

UNITS = {case.name: case.unit for case in (*FLOW_CASES, *JOB_CASES)}


def main(name: str, url: str, extent: str, *measures: str) -> None:
    system = SYSTEMS[name]
    figures = sys.stdout
    # What a system has to say is not a figure.
    with redirect_stdout(sys.stderr):
        module = import_module(f"benchmarks.engine_peers.{system.module}")
        for what in measures:
            values: dict[str, float] = module.measure(what, system, url, system.effort(quick=extent == "quick"))
            for case, value in values.items():
                # Bare commits are the store's, whoever counted them.
                of = limit_of(system) if case == COMMITS.name else name
                figure = Figure(system=of, case=case, value=round(value, 2), unit=UNITS[case])
                print(msgspec.json.encode(figure).decode(), file=figures, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
