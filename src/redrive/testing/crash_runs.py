"""Kill the worker at every commit, once each, and check that the outcome stays the same."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from redrive.errors import AttemptLostError
from redrive.flows.action import ActionCall
from redrive.flows.flow_call import FlowCall
from redrive.stores.interface import Store
from redrive.testing.crash_points import Execution, Side
from redrive.testing.flow_outcome import FlowOutcome
from redrive.testing.flows import FlowApp, flow_app, run_now

Scenario = Callable[..., Awaitable[Any]]
Stores = str | Callable[[], str | Store]
SIDES: tuple[Side, ...] = ("before", "after")


@dataclass(frozen=True, kw_only=True)
class CrashedRun:
    """One run in which the worker was killed."""

    commit: int
    side: Side
    crashed: bool
    """False when the run had fewer commits than the first one and ended before this commit."""
    outcome: Any
    """The FlowOutcome, or what the scenario returned."""
    executed: tuple[Execution, ...]
    """The attempts that were started, in order."""

    @property
    def where(self) -> str:
        return f"killed right {self.side} commit {self.commit}"


def crash_everywhere(
    what: FlowCall[Any] | ActionCall[Any] | Scenario,
    /,
    *args: Any,
    store: Stores = "memory://",
    **kwargs: Any,
) -> list[CrashedRun]:
    """Run a flow once, and then again for every commit, with the worker killed right before it and right after it.

    Raises AssertionError when a run ends differently from the first one, or when an attempt started that was not in
    the log or had already ended. The error says where the worker was killed and what differed, and shows the log.

    what: as in `run_flow`, or, for flows that are cancelled, paused or redriven, a coroutine function that takes a
    FlowApp and returns what must be the same in every run.
    store: a URL, or a function that returns a fresh URL or store for each run. With fresh stores the flows have the
    same ids in every run, and so `workflow.uuid()` and `random()` repeat too.

    The attempt that is running when its worker is killed is lost, and made again. Work of a single attempt is not
    repeated: with `attempts=1` the outcome is rightly a different one. Times differ as well, since the next attempt
    starts a little later.
    """

    async def run(crash: tuple[int, Side] | None) -> tuple[Any, FlowApp]:
        address = store() if callable(store) else store
        same_ids = callable(store) or address == "memory://"
        try:
            async with flow_app(address, same_ids=same_ids) as app:
                if crash is not None:
                    app.crash_at(*crash)
                return await _run(app, what, args, kwargs), app
        except Exception as error:
            if crash is not None:
                error.add_note(f"the worker was killed right {crash[1]} commit {crash[0]}")
            raise

    is_call = isinstance(what, FlowCall | ActionCall)
    if isinstance(what, type) or not (is_call or callable(what)) or (is_call and (args or kwargs)):
        raise TypeError(
            f"crash_everywhere takes a call (Billing.call(...)), or a coroutine function of a FlowApp, not {what!r}"
        )
    expected, first = run_now(run(None))
    runs: list[CrashedRun] = []
    for commit in range(1, first.witness.commits + 1):
        for side in SIDES:
            outcome, app = run_now(run((commit, side)))
            crashed = CrashedRun(
                commit=commit,
                side=side,
                crashed=app.witness.crash_at is None,
                outcome=outcome,
                executed=tuple(app.witness.executed),
            )
            _compare(expected, crashed, first.witness.commits)
            runs.append(crashed)
    return runs


async def _run(
    app: FlowApp, what: FlowCall[Any] | ActionCall[Any] | Scenario, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if isinstance(what, FlowCall | ActionCall):
        return await app.outcome(await app.start(what))
    return await what(app, *args, **kwargs)


def _compare(expected: Any, run: CrashedRun, commits: int) -> None:
    if _comparable(run.outcome) != _comparable(expected):
        raise AssertionError(
            f"{run.where} of {commits}, the outcome differs from the run without a crash\n"
            f"without: {_described(expected)}\n"
            f"with:    {_described(run.outcome)}\n{_hint(run.outcome)}\n{run.outcome}"
        )


def _hint(outcome: Any) -> str:
    if isinstance(outcome, FlowOutcome) and isinstance(outcome.error, AttemptLostError):
        return "Work of a single attempt is not repeated when its worker is lost: allow it two.\n"
    return ""


def _comparable(outcome: Any) -> Any:
    if isinstance(outcome, FlowOutcome):
        error = outcome.error
        result = outcome.result if outcome.status == "completed" else None
        return outcome.status, result, type(error), None if error is None else str(error)
    return outcome


def _described(outcome: Any) -> str:
    return outcome.ending() if isinstance(outcome, FlowOutcome) else repr(outcome)
