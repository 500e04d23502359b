"""Kill the worker at every commit, once each, and see that nothing changes."""

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

Story = Callable[..., Awaitable[Any]]
Stores = str | Callable[[], str | Store]
SIDES: tuple[Side, ...] = ("before", "after")


@dataclass(frozen=True, kw_only=True)
class CrashedRun:
    """One run in which the worker was killed."""

    commit: int
    side: Side
    crashed: bool
    """False when the run had fewer commits than the first one, so that it was over before."""
    outcome: Any
    """The FlowOutcome, or what the story returned."""
    executed: tuple[Execution, ...]
    """The attempts that were begun, in order."""

    @property
    def where(self) -> str:
        return f"killed right {self.side} commit {self.commit}"


def crash_everywhere(
    what: FlowCall[Any] | ActionCall[Any] | Story,
    /,
    *args: Any,
    store: Stores = "memory://",
    **kwargs: Any,
) -> list[CrashedRun]:
    """Run it once, and then once for every commit and both sides of it, with the worker killed there.

    AssertionError when a run ends otherwise than the first one, or when an attempt began that the log did not know of,
    or that it had as done: it says where the worker was killed, what differed, and prints the log.

    what: a call, as in `run_flow`, or a coroutine function that gets a FlowApp and the other arguments, and returns
    what is to be the same in every run: for flows that are cancelled, paused or redriven.
    store: an address, or a function that makes a fresh one (or a store) for each run. With fresh ones the flows have
    the same ids in every run, and so do `workflow.uuid()` and `random()`.

    The attempt under way when its worker dies counts as one that was lost. So allow one attempt more than the workflow
    needs: with `attempts=1`, or when the last attempt is lost, the outcome is another, and rightly so. And since the
    attempt that follows comes a little later, times differ.
    """

    async def run(crash: tuple[int, Side] | None) -> tuple[Any, FlowApp]:
        address = store() if callable(store) else store
        same_ids = callable(store) or address == "memory://"
        try:
            async with flow_app(address, same_ids=same_ids) as app:
                if crash is not None:
                    app.crash_at(*crash)
                return await _outcome_of(app, what, args, kwargs), app
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


async def _outcome_of(
    app: FlowApp, what: FlowCall[Any] | ActionCall[Any] | Story, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if isinstance(what, FlowCall | ActionCall):
        return await app.outcome(await app.start(what))
    return await what(app, *args, **kwargs)


def _compare(expected: Any, run: CrashedRun, commits: int) -> None:
    if _comparable(run.outcome) != _comparable(expected):
        raise AssertionError(
            f"{run.where} of {commits}, it ended otherwise than without a crash\n"
            f"without: {_in_words(expected)}\n"
            f"with:    {_in_words(run.outcome)}\n{_hint(run.outcome)}\n{run.outcome}"
        )


def _hint(outcome: Any) -> str:
    if isinstance(outcome, FlowOutcome) and isinstance(outcome.error, AttemptLostError):
        return "An attempt that is lost with its worker counts: allow one more than the workflow needs.\n"
    return ""


def _comparable(outcome: Any) -> Any:
    if isinstance(outcome, FlowOutcome):
        error = outcome.error
        result = outcome.result if outcome.status == "completed" else None
        return outcome.status, result, type(error), None if error is None else str(error)
    return outcome


def _in_words(outcome: Any) -> str:
    return outcome.ending() if isinstance(outcome, FlowOutcome) else repr(outcome)
