"""The order of a pipeline's stages: which stages wait for which, and which ones a guard repeats."""

from collections.abc import Iterable, Mapping

from redrive.errors import PipelineError
from redrive.flows.graphs.cycles import cycle_in_words, ordered
from redrive.pipeline.stage import StageSpec


class Layout:
    """The validated graph of a pipeline; the same for all runs, whatever the interceptors."""

    def __init__(self, specs: Mapping[str, StageSpec]) -> None:
        if not specs:
            raise PipelineError("the pipeline has no stages; add one: Pipeline().with_stage('fetch', Fetch())")
        self.specs = dict(specs)
        self._check()
        self.repeated_by: dict[str, tuple[str, ...]] = {}
        """Guard -> the stages that run again when it sends one back, in order; the guard is the last."""
        waits = {name: list(spec.dependencies) for name, spec in self.specs.items()}
        for spec in self.specs.values():
            if spec.guard_retry is not None:
                self._add_guard(spec, spec.guard_retry.stage, waits)
        self.waits = {name: tuple(dict.fromkeys(others)) for name, others in waits.items()}
        """Stage -> the stages that must end first: its dependencies, and guards that may still reject their work."""
        self.followers = _reversed(self.waits)
        self.roots = [name for name, others in self.waits.items() if not others]

    def _check(self) -> None:
        for name, spec in self.specs.items():
            for other in spec.dependencies:
                if other not in self.specs:
                    known = ", ".join(list(self.specs)[:20])
                    raise PipelineError(
                        f"stage {name!r}: depends on {other!r}, which is not a stage; use one of {known}"
                    )
        _, cycles = ordered(self.specs, lambda name: self.specs[name].dependencies)
        if cycles:
            raise PipelineError(f"stages wait for each other: {cycle_in_words(cycles[0])}")

    def _add_guard(self, guard: StageSpec, sent_back: str, waits: dict[str, list[str]]) -> None:
        if sent_back not in _reachable(guard.name, {name: spec.dependencies for name, spec in self.specs.items()}):
            raise PipelineError(
                f"stage {guard.name!r}: guard_retry sends back {sent_back!r}, which is not one of its dependencies; "
                f"declare it: dependencies=({sent_back!r}, ...)"
            )
        # `waits` includes other guards: one that checks the same work runs again too.
        between = _reachable(guard.name, waits) & _reachable(sent_back, _reversed(waits))
        repeated = between | {sent_back, guard.name}
        self.repeated_by[guard.name] = tuple(name for name in self.specs if name in repeated)
        for name, others in waits.items():
            if name not in repeated and any(other in repeated for other in others):
                others.append(guard.name)


def _reversed(edges: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    followers: dict[str, list[str]] = {name: [] for name in edges}
    for name, others in edges.items():
        for other in others:
            followers[other].append(name)
    return followers


def _reachable(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return every stage reachable from `start`, without `start` itself."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for other in edges[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found
