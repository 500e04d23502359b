"""Compares one guarded call with other libraries: `python -m benchmarks.calls [--json] [--quick]`."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.figures import Budget, Case, Figure, Outcome, arguments, progress, show, step, value_of
from benchmarks.guards import ATTEMPTS, SYSTEMS, Guards
from benchmarks.timing import best_async_seconds, best_import_seconds, best_seconds, compiled

SYNC = Case(
    name="success_sync_ns", unit="ns", what="overhead of a guarded function that succeeds (bare: the unguarded call)"
)
ASYNC = Case(name="success_async_ns", unit="ns", what="the same for a coroutine function")
FAIL = Case(
    name="fail3_sync_us",
    unit="us",
    what="three failing attempts without waits, then giving up (bare: three calls whose errors are caught)",
)
IMPORT = Case(name="import_ms", unit="ms", what="the import alone, in a fresh interpreter")

_WORK = "def work():\n    return 1\n"
_ASYNC_WORK = "async def work():\n    return 1\n"
_FAILING_WORK = "def work():\n    raise ConnectionError('the service is down')\n"

# Rounds of the timed loops, and fresh interpreters per import.
ROUNDS, IMPORTS = 800, 25
QUICK_ROUNDS, QUICK_IMPORTS = 150, 6

MODULES = {name: name for name in SYSTEMS} | {"hyx": "hyx.retry", "asyncio": "asyncio"}
NO_PLAIN_FUNCTIONS = "it guards coroutine functions only"


def main() -> None:
    options = arguments("One guarded call, side by side with tenacity, stamina, backoff, redress and hyx.")
    rounds, imports = (QUICK_ROUNDS, QUICK_IMPORTS) if options.quick else (ROUNDS, IMPORTS)
    guards = {name: load() for name, load in SYSTEMS.items()}
    _check(guards)
    figures: list[Figure] = []
    with progress(steps=4) as bar:
        step(bar, SYNC.name)
        figures += _over_bare(SYNC, best_seconds(_guarded(guards, "success", _WORK), rounds))
        step(bar, ASYNC.name)
        figures += _over_bare(ASYNC, best_async_seconds(_guarded(guards, "async_success", _ASYNC_WORK), rounds))
        step(bar, FAIL.name)
        figures += _figures(FAIL, 1e6, best_seconds(_failing(guards), rounds))
        step(bar, IMPORT.name)
        figures += _figures(IMPORT, 1e3, best_import_seconds(MODULES, imports))
    show(
        Outcome(
            title="one guarded call; (xN): N times as long as redrive",
            cases=[SYNC, ASYNC, FAIL, IMPORT],
            figures=figures,
            left_out={("hyx", SYNC.name): NO_PLAIN_FUNCTIONS, ("hyx", FAIL.name): NO_PLAIN_FUNCTIONS},
            reference_systems=["bare", "asyncio"],
            budgets=_budgets(figures),
        ),
        as_json=options.json,
    )


def _guarded(guards: dict[str, Guards], what: str, work: str) -> dict[str, Callable[[], Any]]:
    """Return the guarded call of each system that supports it, and the bare call."""
    calls = {"bare": compiled(work, "work")}
    for name, system in guards.items():
        guard = getattr(system, what)
        if guard is not None:
            calls[name] = guard(compiled(work, "work"))
    return calls


def _failing(guards: dict[str, Guards]) -> dict[str, Callable[[], Any]]:
    """Return the failing calls; the error that reaches the caller is caught."""
    calls = _guarded(guards, "failure", _FAILING_WORK)
    bare = calls.pop("bare")
    caught: dict[str, Callable[[], Any]] = {"bare": _caught(bare, ATTEMPTS)}
    return caught | {name: _caught(call, 1) for name, call in calls.items()}


def _caught(call: Callable[[], Any], times: int) -> Callable[[], None]:
    def catch() -> None:
        for _ in range(times):
            try:  # noqa: SIM105 - contextlib.suppress would cost more than the bare call that is measured
                call()
            except ConnectionError:
                pass

    return catch


def _figures(case: Case, scale: float, seconds: dict[str, float]) -> list[Figure]:
    return [
        Figure(system=name, case=case.name, value=round(value * scale, 2), unit=case.unit)
        for name, value in seconds.items()
    ]


def _over_bare(case: Case, seconds: dict[str, float]) -> list[Figure]:
    bare = seconds["bare"]
    return _figures(case, 1e9, {name: value - bare if name != "bare" else bare for name, value in seconds.items()})


def _budgets(figures: Sequence[Figure]) -> list[Budget]:
    sync, async_, ours, asyncio, tenacity = (
        value_of(figures, system, case) or 0.0
        for system, case in (
            ("redrive", SYNC.name),
            ("redrive", ASYNC.name),
            ("redrive", IMPORT.name),
            ("asyncio", IMPORT.name),
            ("tenacity", IMPORT.name),
        )
    )
    return [
        Budget(what="a guarded function costs at most 400 ns", measured=f"{sync:.0f} ns", met=sync <= 400),
        Budget(what="a guarded coroutine costs at most 850 ns", measured=f"{async_:.0f} ns", met=async_ <= 850),
        Budget(
            what="the import takes at most twice asyncio's, or less than tenacity's",
            measured=f"{ours:.1f} ms, asyncio {asyncio:.1f} ms, tenacity {tenacity:.1f} ms",
            met=ours <= 2 * asyncio or ours < tenacity,
        ),
    ]


def _check(guards: dict[str, Guards]) -> None:
    """Check that every system does the same work: three calls, then the error. Otherwise the figures mean nothing."""
    for name, system in guards.items():
        if system.failure is None:
            continue
        made = 0

        def work() -> None:
            nonlocal made
            made += 1
            raise ConnectionError

        _caught(system.failure(work), 1)()
        assert made == ATTEMPTS, f"{name} made {made} calls, not {ATTEMPTS}"


if __name__ == "__main__":
    main()
