"""What a run and its stages know: `PipelineContext` for the run, `StageContext` and `StageInputs` for one stage."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from redrive.determinism.ids import new_id
from redrive.pipeline.output import StageOutput, StageStatus, reason_text
from redrive.pipeline.sinks import NO_SINK, EventSink


class PipelineContext:
    """One run: its ids, what it was given, and where its events go. Use one for one run.

    Interceptors get a view of it that belongs to one stage: what they put into its `data` is seen by the
    interceptors of that stage in that run, and by no other.
    """

    __slots__ = ("_cancel", "_cancelled_early", "data", "event_sink", "pipeline_run_id", "request_id")

    def __init__(
        self,
        *,
        data: MutableMapping[str, Any] | None = None,
        request_id: Any = None,
        pipeline_run_id: Any = None,
        event_sink: EventSink | None = None,
    ) -> None:
        if data is not None and not isinstance(data, Mapping):
            raise TypeError(f"data: a {type(data).__name__} is not allowed; use a dict, such as {{'order': 17}}")
        if event_sink is not None and not callable(getattr(event_sink, "try_emit", None)):
            raise TypeError(
                f"event_sink: a {type(event_sink).__name__} is not allowed; use an EventQueue, or an object with "
                "`def try_emit(self, type, data)`"
            )
        self.pipeline_run_id = new_id() if pipeline_run_id is None else pipeline_run_id
        self.request_id = request_id
        self.data: MutableMapping[str, Any] = {} if data is None else data
        self.event_sink: EventSink = NO_SINK if event_sink is None else event_sink
        self._cancel: Callable[[str], None] | None = None
        self._cancelled_early: str | None = None

    def cancel(self, reason: str = "") -> None:
        """End the run that uses this context at once, without an error; its result says that it was cancelled.

        From any thread. One that has not begun yet ends as it begins.
        """
        if self._cancel is not None:
            self._cancel(reason_text(reason))
        else:
            self._cancelled_early = reason_text(reason)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(run {self.pipeline_run_id})"


class Feedback(msgspec.Struct, frozen=True):
    """Why a guard sent a stage back to work."""

    guard: str
    error: str
    data: Mapping[str, Any]
    """What the guard said beside its error."""
    rejected: Mapping[str, Any]
    """What the stage had given."""
    round: int
    """From 1."""


class StageInputs:
    """What a stage may read: what its declared dependencies gave, and what the run was given.

    `inputs["total"]` is the data of the dependency `total` where there is one; else the value `total` that one of
    the dependencies gave; else the value the run was given under that name.
    """

    __slots__ = ("_copies", "_given", "_outputs", "_stage")

    def __init__(self, stage: str, outputs: dict[str, StageOutput], given: Mapping[str, Any]) -> None:
        self._stage = stage
        self._outputs = outputs
        self._given = given
        self._copies: dict[str, dict[str, Any]] | None = None

    def __getitem__(self, name: str) -> Any:
        output = self._outputs.get(name)
        if output is not None:
            if output.status is StageStatus.OK:
                return self._copy(name, output)
            raise KeyError(
                f"{name} gave nothing to {self._stage}: it was skipped ({output.error or 'no reason given'})"
            )
        holders = [stage for stage, other in self._outputs.items() if name in other.data]
        if len(holders) == 1:
            return self._outputs[holders[0]].data[name]
        if holders:
            raise KeyError(f"{name} is given by {' and by '.join(holders)}; write inputs.get_from({holders[0]!r}, ...)")
        if name in self._given:
            return self._given[name]
        raise KeyError(
            f"{name} is not an input of {self._stage}: no declared dependency "
            f"({', '.join(self._outputs) or 'there is none'}) gave it, and the run was not given it"
        )

    def _copy(self, name: str, output: StageOutput) -> dict[str, Any]:
        """What the stage does with its inputs is not what others read. One copy: they may be large, and read often."""
        if self._copies is None:
            self._copies = {}
        if name not in self._copies:
            self._copies[name] = dict(output.data)
        return self._copies[name]

    @property
    def outputs(self) -> Mapping[str, StageOutput]:
        """The outputs of the declared dependencies, by name; those that were skipped among them."""
        return MappingProxyType(self._outputs)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - this is what `get` does

    def get_from(self, stage: str, name: str, default: Any = None) -> Any:
        """A value that one dependency gave; `default` where it gave none, or was skipped."""
        if stage not in self._outputs:
            raise KeyError(f"{stage} is not a dependency of {self._stage}; declare it: dependencies=({stage!r}, ...)")
        return self._outputs[stage].data.get(name, default)

    def __contains__(self, name: object) -> bool:
        output = self._outputs.get(name) if isinstance(name, str) else None
        if output is not None:
            return output.status is StageStatus.OK
        return any(name in other.data for other in self._outputs.values()) or name in self._given

    def __iter__(self) -> Iterator[str]:
        raise TypeError(
            "inputs are read by name; what each dependency gave is in ctx.inputs.outputs, and what the run was given "
            "in ctx.data"
        )

    def __repr__(self) -> str:
        return f"StageInputs({', '.join(self._outputs)})"


class RunOfStage(Protocol):
    """What a context tells of the run that its stage is part of."""

    @property
    def stage_name(self) -> str: ...
    @property
    def pipeline_run_id(self) -> Any: ...
    @property
    def request_id(self) -> Any: ...
    @property
    def given(self) -> MutableMapping[str, Any]: ...
    @property
    def event_sink(self) -> EventSink: ...
    @property
    def feedback(self) -> tuple[Feedback, ...]: ...


class StageContext:
    """What `execute` is given: the inputs of the stage, which attempt this is, and where events go."""

    __slots__ = ("_round", "_run", "attempt", "inputs")

    def __init__(self, run: RunOfStage, inputs: StageInputs, attempt: int, round_: int = 0) -> None:
        self._run = run
        self._round = round_
        self.inputs = inputs
        self.attempt = attempt
        """From 1."""

    @property
    def stage_name(self) -> str:
        return self._run.stage_name

    @property
    def pipeline_run_id(self) -> Any:
        return self._run.pipeline_run_id

    @property
    def request_id(self) -> Any:
        return self._run.request_id

    @property
    def data(self) -> Mapping[str, Any]:
        """What the run was given; it cannot be changed from here."""
        return MappingProxyType(self._run.given)

    @property
    def event_sink(self) -> EventSink:
        return self._run.event_sink

    @property
    def feedback(self) -> tuple[Feedback, ...]:
        """What guards said about earlier outputs of this stage in this run, oldest first."""
        return self._run.feedback

    @property
    def idempotency_key(self) -> str:
        """Names this work: the same on each attempt, another in each run and stage, and when a guard sent it back."""
        return in_round(f"{self._run.pipeline_run_id}:{self._run.stage_name}", self._round)

    def __repr__(self) -> str:
        return f"StageContext({self.stage_name!r}, attempt {self.attempt})"


def in_round(key: str, round_: int) -> str:
    """A key for work that is done again because a guard refused it is another one: the old names the refused work."""
    return key if not round_ else f"{key}:{round_ + 1}"
