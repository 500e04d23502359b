"""Which stages of a run are ready: pure bookkeeping over the layout."""

from collections import deque

from redrive.pipeline.layout import Layout
from redrive.pipeline.output import StageOutput


class Schedule:
    """The outputs of one run so far, and the stages that wait for nothing any more."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._waits = {name: len(others) for name, others in layout.waits.items() if others}
        self._repeats: dict[str, int] = {}
        self.outputs: dict[str, StageOutput] = {}
        self.ready: deque[str] = deque(layout.roots)

    def release_followers(self, name: str) -> None:
        """Mark the stages as ready that waited for this one last."""
        waits = self._waits
        for follower in self._layout.followers[name]:
            waits[follower] -= 1
            if not waits[follower]:
                self.ready.append(follower)

    def repeat(self, guard: str, stage: str) -> None:
        """Have `stage` run again, and after it everything up to the guard."""
        repeated = self._layout.repeated_by[guard]
        for name in repeated:
            if self.outputs.pop(name, None) is not None:
                for follower in self._layout.followers[name]:
                    self._waits[follower] += 1
        for name in repeated:
            self._repeats[name] = self._repeats.get(name, 0) + 1
            self._waits[name] = sum(other in repeated for other in self._layout.waits[name])
        self.ready.append(stage)

    def repeats(self, name: str) -> int:
        """Return how often guards have sent the stage back."""
        return self._repeats.get(name, 0)
