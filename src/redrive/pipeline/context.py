"""The contexts: `PipelineContext` of a run, `StageContext` and `StageInputs` of one stage."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from redrive.determinism.ids import new_id
from redrive.pipeline.output import StageOutput, StageStatus, reason_text
from redrive.pipeline.sinks import NO_SINK, EventSink


class PipelineContext:
    """The ids, data and event sink of one run. Create one for each run.

    Interceptors get a view of it for their stage: values they put into its `data` are visible to the interceptors of
    that stage in that run only.
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
        """End the run of this context at once, without an error; its result has the status "cancelled".

        It may be called from any thread. A run that has not started yet is cancelled as soon as it starts.
        """
        if self._cancel is not None:
            self._cancel(reason_text(reason))
        else:
            self._cancelled_early = reason_text(reason)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(run {self.pipeline_run_id})"


class Feedback(msgspec.Struct, frozen=True):
    """Why a guard sent a stage back."""

    guard: str
    error: str
    data: Mapping[str, Any]
    """The data of the guard's `StageOutput.fail`."""
    rejected: Mapping[str, Any]
    """The output that the guard rejected."""
    round: int
    """From 1."""


class StageInputs:
    """The values a stage may read: the outputs of its declared dependencies, and the data of the run.

    `inputs["total"]` is the data of the dependency `total`; if no dependency has that name, the value `total` of a
    dependency's output; otherwise the value `total` in the data of the run.
    """

    __slots__ = ("_copies", "_outputs", "_run_data", "_stage")

    def __init__(self, stage: str, outputs: dict[str, StageOutput], run_data: Mapping[str, Any]) -> None:
        self._stage = stage
        self._outputs = outputs
        self._run_data = run_data
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
        if name in self._run_data:
            return self._run_data[name]
        raise KeyError(
            f"{name} is not an input of {self._stage}: neither its declared dependencies "
            f"({', '.join(self._outputs) or 'none'}) nor the data of the run have it"
        )

    def _copy(self, name: str, output: StageOutput) -> dict[str, Any]:
        """Return the stage's own copy of the data, so that its changes reach no other stage."""
        # Made once: the data may be large, and read often.
        if self._copies is None:
            self._copies = {}
        if name not in self._copies:
            self._copies[name] = dict(output.data)
        return self._copies[name]

    @property
    def outputs(self) -> Mapping[str, StageOutput]:
        """The outputs of the declared dependencies by name, skipped ones included."""
        return MappingProxyType(self._outputs)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - this is what `get` does

    def get_from(self, stage: str, name: str, default: Any = None) -> Any:
        """Return a value of one dependency's output; `default` if it has none of that name, or was skipped."""
        if stage not in self._outputs:
            raise KeyError(f"{stage} is not a dependency of {self._stage}; declare it: dependencies=({stage!r}, ...)")
        return self._outputs[stage].data.get(name, default)

    def __contains__(self, name: object) -> bool:
        output = self._outputs.get(name) if isinstance(name, str) else None
        if output is not None:
            return output.status is StageStatus.OK
        return any(name in other.data for other in self._outputs.values()) or name in self._run_data

    def __iter__(self) -> Iterator[str]:
        raise TypeError(
            "inputs are read by name; the outputs of the dependencies are in ctx.inputs.outputs, and the data of the "
            "run in ctx.data"
        )

    def __repr__(self) -> str:
        return f"StageInputs({', '.join(self._outputs)})"


class StageSource(Protocol):
    """The run, or durable flow, that a StageContext reads from."""

    @property
    def stage_name(self) -> str: ...
    @property
    def pipeline_run_id(self) -> Any: ...
    @property
    def request_id(self) -> Any: ...
    @property
    def run_data(self) -> MutableMapping[str, Any]: ...
    @property
    def event_sink(self) -> EventSink: ...
    @property
    def feedback(self) -> tuple[Feedback, ...]: ...


class StageContext:
    """The argument of `execute`: the stage's inputs, the number of the attempt, and the event sink."""

    __slots__ = ("_round", "_source", "attempt", "inputs")

    def __init__(self, source: StageSource, inputs: StageInputs, attempt: int, round_: int = 0) -> None:
        self._source = source
        self._round = round_
        self.inputs = inputs
        self.attempt = attempt
        """From 1."""

    @property
    def stage_name(self) -> str:
        return self._source.stage_name

    @property
    def pipeline_run_id(self) -> Any:
        return self._source.pipeline_run_id

    @property
    def request_id(self) -> Any:
        return self._source.request_id

    @property
    def data(self) -> Mapping[str, Any]:
        """The data that the run was started with, read-only."""
        return MappingProxyType(self._source.run_data)

    @property
    def event_sink(self) -> EventSink:
        return self._source.event_sink

    @property
    def feedback(self) -> tuple[Feedback, ...]:
        """What guards said about earlier outputs of this stage in this run, oldest first."""
        return self._source.feedback

    @property
    def idempotency_key(self) -> str:
        """A key for this work: the same on every attempt; different in each run, stage and guard round."""
        return key_for_round(f"{self._source.pipeline_run_id}:{self._source.stage_name}", self._round)

    def __repr__(self) -> str:
        return f"StageContext({self.stage_name!r}, attempt {self.attempt})"


def key_for_round(key: str, round_: int) -> str:
    """Return the key of this guard round's work: the plain key names the work that the guard rejected."""
    return key if not round_ else f"{key}:{round_ + 1}"
