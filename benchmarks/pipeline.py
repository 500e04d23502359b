"""What a stage costs, side by side with stageflow-core: `python -m benchmarks.pipeline [--json] [--quick]`.

Pipelines of stages that do nothing and succeed, with the default interceptors of each system. Nothing in them waits,
and a long chain outlasts the slice of time that a busy machine gives a process: what is measured is CPU time.
"""

import asyncio
import gc
import importlib.util
from collections.abc import Awaitable, Callable, Sequence
from time import process_time

from benchmarks.figures import Budget, Case, Figure, Outcome, arguments, progress, show, step, value_of
from redrive.pipeline import Pipeline, StageContext, StageKind, StageOutput

Dependencies = dict[str, tuple[str, ...]]
Run = Callable[[], Awaitable[int]]

CHAIN_100 = Case(name="chain_100_us", unit="us", what="one of 100 stages, each of which waits for the one before")
PARALLEL_100 = Case(name="parallel_100_us", unit="us", what="one of 100 stages that wait for nothing")
CHAIN_1000 = Case(name="chain_1000_us", unit="us", what="one of 1,000 stages in a chain")
CHAIN_10000 = Case(name="chain_10000_us", unit="us", what="one of 10,000 stages in a chain")

STAGES = {CHAIN_100.name: 100, PARALLEL_100.name: 100, CHAIN_1000.name: 1000, CHAIN_10000.name: 10_000}
# Rounds in which the systems take turns; the best counts. The long ones take the other system minutes.
ROUNDS = {CHAIN_100.name: 60, PARALLEL_100.name: 60, CHAIN_1000.name: 12, CHAIN_10000.name: 2}
QUICK_ROUNDS = {CHAIN_100.name: 10, PARALLEL_100.name: 10, CHAIN_10000.name: 1}
# Of the same rounds ours may have more: they are short.
OURS_AT_LEAST = 5

# Short pipelines run more than once in a turn, so that neither system is measured cold.
STAGES_IN_A_TURN = 1000

BUDGET_US = 20
FLAT = 1.5


class Work:
    name = "work"
    kind = StageKind.WORK

    async def execute(self, ctx: StageContext) -> StageOutput:
        return StageOutput.ok(number=1)


def redrive_runner(dependencies: Dependencies) -> Run:
    pipeline = Pipeline()
    for name, others in dependencies.items():
        pipeline = pipeline.with_stage(name, Work(), StageKind.WORK, dependencies=others)
    pipeline.build()

    async def run() -> int:
        return len(await pipeline.run())

    return run


def systems() -> dict[str, Callable[[Dependencies], Run]]:
    found: dict[str, Callable[[Dependencies], Run]] = {"redrive": redrive_runner}
    if importlib.util.find_spec("stageflow") is not None:
        from benchmarks.stageflow_pipelines import runner

        found["stageflow"] = runner
    return found


def main() -> None:
    options = arguments("What a stage costs, side by side with stageflow-core.")
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    cases = [case for case in (CHAIN_100, PARALLEL_100, CHAIN_1000, CHAIN_10000) if case.name in rounds]
    figures: list[Figure] = []
    left_out = {}
    makers = systems()
    if "stageflow" not in makers:
        left_out = {("stageflow", case.name): "it is not installed; use make bench-pipeline" for case in cases}
    with progress(steps=len(cases)) as bar:
        for case in cases:
            step(bar, case.name)
            runs = {name: make(_dependencies(case)) for name, make in makers.items()}
            best = asyncio.run(_best_seconds(runs, STAGES[case.name], rounds[case.name]))
            figures += [
                Figure(system=name, case=case.name, value=round(seconds * 1e6, 2), unit="us")
                for name, seconds in best.items()
            ]
    show(
        Outcome(
            title="one stage of a pipeline, with the default interceptors; (xN): N times what redrive takes",
            cases=cases,
            figures=figures,
            left_out=left_out,
            budgets=_budgets(figures),
        ),
        as_json=options.json,
    )


def _dependencies(case: Case) -> Dependencies:
    names = [f"stage-{number}" for number in range(STAGES[case.name])]
    if case is PARALLEL_100:
        return dict.fromkeys(names, ())
    return {name: (names[index - 1],) if index else () for index, name in enumerate(names)}


async def _best_seconds(runs: dict[str, Run], stages: int, rounds: int) -> dict[str, float]:
    """Seconds per stage, by system: the best of rounds in which all take turns."""
    best = dict.fromkeys(runs, float("inf"))
    gc.collect()
    for turn in range(max(rounds, OURS_AT_LEAST)):
        for name, run in runs.items():
            if name != "redrive" and turn >= rounds:
                continue
            for _ in range(max(1, STAGES_IN_A_TURN // stages)):
                began = process_time()
                done = await run()
                seconds = process_time() - began
                assert done == stages, f"{name} gave {done} outputs, not {stages}"
                best[name] = min(best[name], seconds / stages)
    return best


def _budgets(figures: Sequence[Figure]) -> list[Budget]:
    chain, parallel, long = (
        value_of(figures, "redrive", case.name) or 0.0 for case in (CHAIN_100, PARALLEL_100, CHAIN_10000)
    )
    return [
        Budget(
            what=f"a stage with the default interceptors costs at most {BUDGET_US} us",
            measured=f"{chain:.1f} us in a chain, {parallel:.1f} us in parallel",
            met=max(chain, parallel) <= BUDGET_US,
        ),
        Budget(
            what=f"a stage of 10,000 costs at most {FLAT:g} times one of 100",
            measured=f"{long:.1f} us, {long / chain:.2f} times" if chain else "nothing",
            met=long <= FLAT * chain,
        ),
    ]


if __name__ == "__main__":
    main()
