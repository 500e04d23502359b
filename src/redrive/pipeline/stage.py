"""Stages and the attributes they may declare; all are validated when the stage is added to a pipeline."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Protocol, cast

from redrive.calls.function_kinds import is_async
from redrive.calls.shared_dependencies import as_dependency
from redrive.errors import NotationError, Permanent, PipelineError
from redrive.failures.redaction import redact
from redrive.notation import read_policy
from redrive.pipeline.context import StageContext
from redrive.pipeline.coroutine_functions import is_definitely_sync
from redrive.pipeline.guard_retry import GuardRetry
from redrive.pipeline.output import StageOutput
from redrive.resilience.circuit import Circuit, CircuitSettings
from redrive.resilience.dependencies import Dependency

# A day.
MAX_TIMEOUT_MS = 86_400_000


class StageKind(StrEnum):
    """The purpose of a stage. A GUARD may send a stage back; the other kinds only document."""

    TRANSFORM = "transform"
    ENRICH = "enrich"
    ROUTE = "route"
    GUARD = "guard"
    WORK = "work"
    AGENT = "agent"


Returned = StageOutput | Mapping[str, Any] | None


class Executes(Protocol):
    """The minimum of a stage: its name and kind may be given to `with_stage` instead."""

    async def execute(self, ctx: StageContext, /) -> Returned: ...


class Stage(Executes, Protocol):
    """One stage of a pipeline. `execute` contains no retry code.

    A stage may declare more by attributes of these names:

    retry_config: arguments of `RetryInterceptor` for this stage; they override those of the interceptor in use.
    retry_on_fail: True to retry `StageOutput.fail` too.
    timeout_ms: time limit of each attempt; overrides that of the `TimeoutInterceptor` in use.
    dependency: the name of what the stage calls; stages that name the same share a circuit and a retry budget.
    idempotency_key: a text, or a function of the StageContext: `IdempotencyInterceptor` runs work with one key once.
    fallback: an output, or a coroutine function of (StageContext, error): the output when the stage has failed.
    compensate: a coroutine function of (StageContext, StageOutput): reverses the stage's work when the run fails later.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> StageKind: ...


Condition = Callable[[StageContext], bool]
Compensate = Callable[[StageContext, StageOutput], Awaitable[Any]]


class StageSpec:
    """A validated stage of a pipeline, shared by all runs."""

    __slots__ = (
        "_circuits",
        "compensate",
        "dependencies",
        "dependency",
        "execute",
        "fallback",
        "guard_retry",
        "idempotency_key",
        "is_pipeline",
        "kind",
        "name",
        "retry_config",
        "retry_on_fail",
        "source",
        "stage",
        "timeout",
        "when",
    )

    def __init__(
        self,
        name: str,
        source: Any,
        kind: StageKind | str | None,
        dependencies: Iterable[str],
        when: Condition | None,
        guard_retry: GuardRetry | None,
        *,
        is_pipeline: bool = False,
    ) -> None:
        """
        source: the stage, or its class if that needs no arguments.
        is_pipeline: the stage runs a nested pipeline, whose stages have retries and timeouts of their own.
        """
        if not isinstance(name, str) or not name:
            raise PipelineError(f"stage name: {name!r} is not allowed; use a text such as 'fetch'")
        self.name = name
        self.source = source
        self.stage = stage = self._instance(source)
        self.is_pipeline = is_pipeline
        self.execute = self._execute_of(stage)
        self.kind = self._kind(declared(stage, "kind") if kind is None else kind)
        self.dependencies = self._dependencies(dependencies)
        if when is not None and (not callable(when) or is_async(when)):
            raise self._refuse("when", when, "a plain function (def) of the StageContext that returns whether to run")
        self.when = when
        self.guard_retry = self._guard_retry(guard_retry)
        self.retry_config = self._retry_config(declared(stage, "retry_config"))
        self.retry_on_fail = self._flag("retry_on_fail")
        self.timeout = self._timeout(declared(stage, "timeout_ms"))
        self.dependency = self._dependency(declared(stage, "dependency"))
        self.idempotency_key = declared(stage, "idempotency_key")
        if self.idempotency_key is not None and not (
            isinstance(self.idempotency_key, str)
            or (callable(self.idempotency_key) and not is_async(self.idempotency_key))
        ):
            raise self._refuse(
                "idempotency_key", self.idempotency_key, "a text, or a plain function (def) of the StageContext"
            )
        self.fallback = declared(stage, "fallback")
        if self.fallback is not None and not (
            isinstance(self.fallback, StageOutput | Mapping)
            or (callable(self.fallback) and not is_definitely_sync(self.fallback))
        ):
            raise self._refuse("fallback", self.fallback, "an output, or a coroutine function of (ctx, error)")
        self.compensate: Compensate | None = declared(stage, "compensate")
        if self.compensate is not None and (not callable(self.compensate) or is_definitely_sync(self.compensate)):
            raise self._refuse("compensate", self.compensate, "a coroutine function of (ctx, output)")
        self._circuits: dict[CircuitSettings, Dependency] = {}

    def dependency_with(self, settings: CircuitSettings) -> Dependency:
        """Return the dependency that the stage declares, or one of its own, shared by all runs."""
        if self.dependency is not None:
            return self.dependency
        own = self._circuits.get(settings)
        if own is None:
            own = self._circuits.setdefault(settings, Dependency(self.name, Circuit(self.name, settings), None))
        return own

    def same_as(self, other: "StageSpec") -> bool:
        """Whether both are the same stage with the same dependencies and settings."""
        return (
            _same(self.source, other.source)
            and self.kind == other.kind
            and self.dependencies == other.dependencies
            and _same(self.when, other.when)
            and self.guard_retry == other.guard_retry
        )

    def is_wanted(self, ctx: StageContext) -> bool:
        """Whether the stage should run: its `when` condition holds."""
        return self.when is None or bool(self._sync_result("when", self.when(ctx)))

    def key_for(self, ctx: StageContext) -> str | None:
        """Return the idempotency key of the stage's work; None if it declares none."""
        key = self.idempotency_key
        text = self._sync_result("idempotency_key", key(ctx)) if callable(key) else key
        return None if text is None else str(text)

    def _sync_result(self, attribute: str, answer: Any) -> Any:
        if not inspect.isawaitable(answer):
            return answer
        if inspect.iscoroutine(answer):
            answer.close()
        raise Permanent(f"stage {self.name!r}: its {attribute} returns a coroutine; use a plain function (def)")

    def _refuse(self, attribute: str, value: object, allowed: str) -> PipelineError:
        # Redacted: a value set by mistake may be a credential.
        shown = redact(repr(value), 200)
        return PipelineError(f"stage {self.name!r}: {attribute}: {shown} is not allowed; use {allowed}")

    def _instance(self, source: Any) -> Any:
        if not inspect.isclass(source):
            return source
        try:
            return source()
        except TypeError as error:
            raise PipelineError(f"stage {self.name!r}: {error}; pass an object instead of the class") from None

    def _execute_of(self, stage: Any) -> Callable[[StageContext], Awaitable[Any]]:
        execute: Any = getattr(stage, "execute", stage)
        if not callable(execute):
            raise PipelineError(
                f"stage {self.name!r}: {redact(repr(stage), 200)} is not a stage; use an object with "
                "`async def execute(self, ctx)`, a coroutine function of the context, or a Pipeline"
            )
        if is_definitely_sync(execute):
            raise PipelineError(
                f"stage {self.name!r}: its execute is not a coroutine function; write: async def execute(...)"
            )
        if _takes_no_arguments(execute):

            async def without_context(ctx: StageContext) -> Any:
                return await cast("Awaitable[Any]", execute())

            return without_context
        return cast("Callable[[StageContext], Awaitable[Any]]", execute)

    def _kind(self, kind: Any) -> StageKind:
        if kind is None:
            return StageKind.WORK
        try:
            return StageKind(kind)
        except ValueError:
            raise self._refuse(
                "kind", kind, "one of " + ", ".join(f"StageKind.{one.name}" for one in StageKind)
            ) from None

    def _dependencies(self, dependencies: Any) -> tuple[str, ...]:
        if isinstance(dependencies, str):
            raise self._refuse("dependencies", dependencies, f"a tuple of names: ({dependencies!r},)")
        try:
            names = tuple(dependencies)
        except TypeError:
            raise self._refuse("dependencies", dependencies, "a tuple of names: ('fetch',), or ()") from None
        for one in names:
            if not isinstance(one, str) or names.count(one) > 1:
                raise self._refuse("dependencies", one, "the names of other stages, each once")
        return names

    def _guard_retry(self, retry: GuardRetry | None) -> GuardRetry | None:
        if retry is None:
            return None
        if not isinstance(retry, GuardRetry):
            raise self._refuse("guard_retry", retry, "GuardRetry('the stage to send back')")
        if self.kind is not StageKind.GUARD:
            raise self._refuse("guard_retry", retry, "it only for a stage of StageKind.GUARD")
        return retry

    def _retry_config(self, config: Any) -> Mapping[str, Any] | None:
        if config is None:
            return None
        try:
            read_policy(
                config if isinstance(config, Mapping) else [config], "stage", f"stage {self.name!r}: retry_config"
            )
        except NotationError as error:
            raise PipelineError(str(error)) from None
        return dict(config)

    def _flag(self, name: str) -> bool:
        value = declared(self.stage, name)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._refuse(name, value, "True or False")

    def _timeout(self, milliseconds: Any) -> float | None:
        if milliseconds is None:
            return None
        try:
            return read_timeout_ms(milliseconds)
        except ValueError as error:
            raise PipelineError(f"stage {self.name!r}: {error}") from None

    def _dependency(self, value: Any) -> Dependency | None:
        try:
            return as_dependency(value)
        except TypeError as error:
            raise PipelineError(f"stage {self.name!r}: {error}") from None


def read_timeout_ms(milliseconds: Any) -> float:
    """Validate a timeout in milliseconds and return it in seconds."""
    number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    if not number or not 0 < milliseconds <= MAX_TIMEOUT_MS:
        raise ValueError(
            f"timeout_ms: {milliseconds!r} is not allowed; use milliseconds above 0, at most {MAX_TIMEOUT_MS}"
        )
    return float(milliseconds) / 1000


def declared(stage: Any, name: str) -> Any:
    """Return an attribute that the stage really has; mocks and proxies, which answer to every name, declare nothing."""
    return None if inspect.getattr_static(stage, name, None) is None else getattr(stage, name)


def _same(one: Any, other: Any) -> bool:
    """Whether both are identical or equal; two bound methods of one object are equal."""
    try:
        return one is other or bool(one == other)
    except Exception:  # noqa: BLE001 - values that cannot be compared are not the same
        return False


def _takes_no_arguments(function: Any) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
