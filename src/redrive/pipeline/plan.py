"""A pipeline, checked and laid out for running: who waits for whom, and what guards the attempts at each stage."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redrive.calls.retrier import Retrier, is_async
from redrive.errors import PipelineError
from redrive.flows.graphs.cycles import cycle_in_words, ordered
from redrive.pipeline.attempt_guard import GuardMaker
from redrive.pipeline.coroutine_functions import is_surely_plain
from redrive.pipeline.hooks import Hooks
from redrive.pipeline.interceptors.base import BaseInterceptor
from redrive.pipeline.interceptors.circuit_breaker import CircuitBreakerInterceptor
from redrive.pipeline.interceptors.idempotency import IdempotencyInterceptor
from redrive.pipeline.interceptors.retry import RetryInterceptor
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.sub_pipeline import SubPipeline


class Layout:
    """Who waits for whom. The same for all runs of a pipeline, whatever the interceptors."""

    def __init__(self, specs: Mapping[str, StageSpec]) -> None:
        if not specs:
            raise PipelineError("the pipeline has no stages; add one: Pipeline().with_stage('fetch', Fetch())")
        self.specs = dict(specs)
        self._check()
        self.redone: dict[str, tuple[str, ...]] = {}
        """Guard -> the stages it sends back, in order, itself the last."""
        waits = {name: list(spec.dependencies) for name, spec in self.specs.items()}
        for spec in self.specs.values():
            if spec.guard_retry is not None:
                self._lay_out_guard(spec, waits)
        self.waits = {name: tuple(dict.fromkeys(others)) for name, others in waits.items()}
        """Stage -> those that must be done before it: its dependencies, and guards that may still undo their work."""
        self.followers: dict[str, list[str]] = {name: [] for name in self.specs}
        for name, others in self.waits.items():
            for other in others:
                self.followers[other].append(name)
        self.roots = [name for name, others in self.waits.items() if not others]

    def _check(self) -> None:
        for name, spec in self.specs.items():
            for other in spec.dependencies:
                if other not in self.specs:
                    known = ", ".join(list(self.specs)[:20])
                    raise PipelineError(f"stage {name!r}: depends on {other!r}, which is no stage; there are {known}")
        _, cycles = ordered(self.specs, lambda name: self.specs[name].dependencies)
        if cycles:
            raise PipelineError(f"stages wait for each other: {cycle_in_words(cycles[0])}")

    def _lay_out_guard(self, guard: StageSpec, waits: dict[str, list[str]]) -> None:
        assert guard.guard_retry is not None  # noqa: S101 - narrows for mypy
        sent_back = guard.guard_retry.stage
        # With the waits for other guards: one that judges the same work is asked again, too.
        above = _closure([guard.name], waits)
        if sent_back not in _closure([guard.name], {name: spec.dependencies for name, spec in self.specs.items()}):
            raise PipelineError(
                f"stage {guard.name!r}: guard_retry sends back {sent_back!r}, which is none of its dependencies; "
                f"declare it: dependencies=({sent_back!r}, ...)"
            )
        followers: dict[str, list[str]] = {name: [] for name in self.specs}
        for name, others in waits.items():
            for other in others:
                followers[other].append(name)
        redone = above & _closure([sent_back], followers) | {sent_back, guard.name}
        self.redone[guard.name] = tuple(name for name in self.specs if name in redone)
        for name, others in waits.items():
            if name not in redone and any(other in redone for other in others):
                others.append(guard.name)


def _closure(names: Iterable[str], next_of: Mapping[str, Iterable[str]]) -> set[str]:
    """All that is reached from `names`, without them."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        for other in next_of[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


class Plan:
    """A layout with a set of interceptors: everything that runs need and do not change."""

    def __init__(self, layout: Layout, interceptors: Sequence[BaseInterceptor]) -> None:
        for one in interceptors:
            if not isinstance(one, BaseInterceptor):
                raise TypeError(f"interceptors: {one!r} is none; use objects of classes derived from BaseInterceptor")
            _check(one)
            if isinstance(one, IdempotencyInterceptor):
                for spec in layout.specs.values():
                    one.refuse_if_it_cannot_forget(spec)
        self.layout = layout
        self.interceptors = tuple(interceptors)
        self._in_order = sorted(interceptors, key=lambda one: one.priority)
        self._optional = [one for one in self._in_order if type(one).in_use is not BaseInterceptor.in_use]
        self._hooks: dict[tuple[bool, ...], Hooks] = {}
        guards = GuardMaker(interceptors)
        self.guards: dict[str, Retrier] = {
            name: guards.guard_for(spec, passes_on=isinstance(spec.stage, SubPipeline))
            for name, spec in layout.specs.items()
        }

    def hooks_now(self) -> Hooks:
        """The hooks for a run that begins now: those of interceptors that are in use."""
        used = tuple(one.in_use() for one in self._optional)
        hooks = self._hooks.get(used)
        if hooks is None:
            out = {id(one) for one, yes in zip(self._optional, used, strict=True) if not yes}
            hooks = self._hooks[used] = _hooks_of([one for one in self._in_order if id(one) not in out])
        return hooks


def _check(interceptor: BaseInterceptor) -> None:
    what = type(interceptor).__name__
    if isinstance(interceptor.priority, bool) or not isinstance(interceptor.priority, int | float):
        raise TypeError(f"interceptors: {what} has the priority {interceptor.priority!r}; use a number such as 30")
    for name in ("before", "after", "on_error"):
        if is_surely_plain(getattr(interceptor, name)):
            raise TypeError(
                f"interceptors: {name} of {what} is not a coroutine function; write: async def {name}(self, ...)"
            )
    for name in ("on_cancel", "in_use"):
        if is_async(getattr(interceptor, name)):
            raise TypeError(f"interceptors: {name} of {what} cannot wait; write: def {name}(self, ...)")


def _hooks_of(interceptors: Sequence[BaseInterceptor]) -> Hooks:
    retries = [one for one in interceptors if isinstance(one, RetryInterceptor)]
    outside = CircuitBreakerInterceptor.priority
    return Hooks(
        outside=_written(interceptors, "before", lambda one: one.priority < outside),
        before=_written(interceptors, "before", lambda one: one.priority >= outside),
        after=_written(interceptors, "after")[::-1],
        on_error=_written(interceptors, "on_error"),
        on_cancel=_written(interceptors, "on_cancel"),
        overruling=_written(retries, "on_error"),
        own_data=any(not type(one).__module__.startswith("redrive.pipeline.") for one in interceptors),
    )


def _written(interceptors: Sequence[BaseInterceptor], name: str, which: Any = lambda one: True) -> tuple[Any, ...]:
    """The hooks of that name that someone wrote; those of the base class do nothing, and the policy's are known."""
    nothing = {getattr(BaseInterceptor, name), RetryInterceptor.on_error}
    hooks = [getattr(one, name, None) for one in interceptors if which(one)]
    return tuple(hook for hook in hooks if hook is not None and getattr(hook, "__func__", hook) not in nothing)
