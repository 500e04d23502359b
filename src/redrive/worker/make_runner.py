"""Makes the runner of a worker; tests make others."""

from collections.abc import Callable

from redrive.runners.outcome_listener import OutcomeListener
from redrive.runners.runner import Runner
from redrive.worker.settings import WorkerSettings

MakeRunner = Callable[[OutcomeListener, WorkerSettings, Callable[[], bool]], Runner]
"""Makes the runner, which asks the function right before each call whether the worker may still act."""


def make_runner(listener: OutcomeListener, settings: WorkerSettings, may_call: Callable[[], bool]) -> Runner:
    return Runner(listener, settings.threads, settings.processes, settings.http, may_call)
