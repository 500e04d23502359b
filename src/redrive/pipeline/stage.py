"""What a stage is, and what it may say about itself. Everything it says is checked when the pipeline is built."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, cast

from redrive.calls.dependencies import as_dependency
from redrive.calls.retrier import is_async
from redrive.errors import NotationError, Permanent, PipelineError
from redrive.failures.redaction import redact
from redrive.notation import read_policy
from redrive.pipeline.context import StageContext
from redrive.pipeline.coroutine_functions import is_surely_plain
from redrive.pipeline.guard_retry import GuardRetry
from redrive.pipeline.output import StageOutput
from redrive.resilience.circuit import Circuit, CircuitSettings
from redrive.resilience.dependencies import Dependency

if TYPE_CHECKING:
    from redrive.pipeline.pipeline import Pipeline

LONGEST_TIMEOUT_MS = 86_400_000
"""A day."""


class StageKind(StrEnum):
    """What a stage is for. A guard may send a stage back to work; the others differ for the reader only."""

    TRANSFORM = "transform"
    ENRICH = "enrich"
    ROUTE = "route"
    GUARD = "guard"
    WORK = "work"
    AGENT = "agent"


Returned = StageOutput | Mapping[str, Any] | None


class Executes(Protocol):
    """The least that a stage can be: its name and kind may be given where it is added to a pipeline."""

    async def execute(self, ctx: StageContext, /) -> Returned: ...


class Stage(Executes, Protocol):
    """One step of a pipeline. `execute` contains no retry code.

    A stage may say more about itself, each by an attribute of that name:

    retry_config: its own arguments of `RetryInterceptor`, over those of the interceptor in use.
    retry_on_fail: True to have `StageOutput.fail` retried too.
    timeout_ms: time for each attempt, over that of the `TimeoutInterceptor` in use.
    dependency: what it talks to, by name; whoever names the same shares its circuit and retry budget.
    idempotency_key: a text, or a function of the StageContext: `IdempotencyInterceptor` runs such work once.
    fallback: an output, or a coroutine function of (StageContext, error): answers when the stage has failed for good.
    undo: a coroutine function of (StageContext, StageOutput): takes back what the stage did, when the run fails later.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> StageKind: ...


Condition = Callable[[StageContext], bool]
Undo = Callable[[StageContext, StageOutput], Awaitable[Any]]


class StageSpec:
    """A stage in its place in a pipeline: checked, and the same for all runs."""

    __slots__ = (
        "_circuits",
        "dependencies",
        "dependency",
        "execute",
        "fallback",
        "given",
        "guard_retry",
        "idempotency_key",
        "kind",
        "name",
        "retry_config",
        "retry_on_fail",
        "stage",
        "timeout",
        "undo",
        "when",
    )

    def __init__(
        self,
        name: str,
        stage: Any,
        kind: StageKind | str | None,
        dependencies: Iterable[str],
        when: Condition | None,
        guard_retry: GuardRetry | None,
        given: Any = None,
    ) -> None:
        """`given`: what the stage was made of: its class, say."""
        if not isinstance(name, str) or not name:
            raise PipelineError(f"stage name: {name!r} is not allowed; use a text such as 'fetch'")
        self.name = name
        self.stage = stage
        self.given = stage if given is None else given
        self.execute = self._execute_of(stage)
        self.kind = self._kind(declared(stage, "kind") if kind is None else kind)
        self.dependencies = self._dependencies(dependencies)
        if when is not None and (not callable(when) or is_async(when)):
            raise self._refuse("when", when, "a plain function (def) of the StageContext that says whether to run")
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
            or (callable(self.fallback) and not is_surely_plain(self.fallback))
        ):
            raise self._refuse("fallback", self.fallback, "an output, or a coroutine function of (ctx, error)")
        self.undo: Undo | None = declared(stage, "undo")
        if self.undo is not None and (not callable(self.undo) or is_surely_plain(self.undo)):
            raise self._refuse("undo", self.undo, "a coroutine function of (ctx, output)")
        self._circuits: dict[CircuitSettings, Dependency] = {}

    def dependency_with(self, settings: CircuitSettings) -> Dependency:
        """What the stage talks to: what it names, or itself; the same for all runs of the pipeline."""
        if self.dependency is not None:
            return self.dependency
        own = self._circuits.get(settings)
        if own is None:
            own = self._circuits.setdefault(settings, Dependency(self.name, Circuit(self.name, settings), None))
        return own

    def same_as(self, other: "StageSpec") -> bool:
        """Whether both put the same stage into the same place."""
        return (
            _same(self.given, other.given)
            and self.kind == other.kind
            and self.dependencies == other.dependencies
            and _same(self.when, other.when)
            and self.guard_retry == other.guard_retry
        )

    def is_wanted(self, ctx: StageContext) -> bool:
        """Whether its condition holds."""
        return self.when is None or bool(self._answer("when", self.when(ctx)))

    def key_for(self, ctx: StageContext) -> str | None:
        """The idempotency key of its work; None: it has none."""
        key = self.idempotency_key
        text = self._answer("idempotency_key", key(ctx)) if callable(key) else key
        return None if text is None else str(text)

    def _answer(self, what: str, answer: Any) -> Any:
        if not inspect.isawaitable(answer):
            return answer
        if inspect.iscoroutine(answer):
            answer.close()
        raise Permanent(f"stage {self.name!r}: its {what} gives a coroutine; use a plain function (def)")

    def _refuse(self, what: str, value: object, allowed: str) -> PipelineError:
        # What stands there by mistake may be a credential.
        return PipelineError(f"stage {self.name!r}: {what}: {redact(repr(value), 200)} is not allowed; use {allowed}")

    def _execute_of(self, stage: Any) -> Callable[[StageContext], Awaitable[Any]]:
        execute: Any = getattr(stage, "execute", stage)
        if not callable(execute):
            raise PipelineError(
                f"stage {self.name!r}: {redact(repr(stage), 200)} is no stage; use an object with "
                "`async def execute(self, ctx)`, a coroutine function of the context, or a Pipeline"
            )
        if is_surely_plain(execute):
            raise PipelineError(
                f"stage {self.name!r}: its execute is not a coroutine function; write: async def execute(...)"
            )
        if _takes_nothing(execute):

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
            raise self._refuse("guard_retry", retry, "it for a stage of StageKind.GUARD only")
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

    def _dependency(self, what: Any) -> Dependency | None:
        try:
            return as_dependency(what)
        except TypeError as error:
            raise PipelineError(f"stage {self.name!r}: {error}") from None


def spec_of(
    name: str,
    stage: "Executes | Pipeline | Callable[..., Awaitable[Any]] | type",
    kind: StageKind | str | None,
    dependencies: Iterable[str],
    when: Condition | None,
    guard_retry: GuardRetry | None,
) -> StageSpec:
    """A class that needs no arguments stands for an object of it."""
    made: Any = stage
    if inspect.isclass(stage):
        try:
            made = stage()
        except TypeError as error:
            raise PipelineError(f"stage {name!r}: {error}; pass an object instead of the class") from None
    return StageSpec(name, made, kind, dependencies, when, guard_retry, stage)


def read_timeout_ms(milliseconds: Any) -> float:
    """Seconds, from the milliseconds that users write."""
    number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    if not number or not 0 < milliseconds <= LONGEST_TIMEOUT_MS:
        raise ValueError(
            f"timeout_ms: {milliseconds!r} is not allowed; use milliseconds above 0, at most {LONGEST_TIMEOUT_MS}"
        )
    return float(milliseconds) / 1000


def declared(stage: Any, name: str) -> Any:
    """An attribute that the stage really has; objects that answer to every name (mocks, proxies) declare nothing."""
    return None if inspect.getattr_static(stage, name, None) is None else getattr(stage, name)


def _same(one: Any, other: Any) -> bool:
    """Whether they are the same; two objects for one method of one object are."""
    try:
        return one is other or bool(one == other)
    except Exception:  # noqa: BLE001 - what cannot be compared is not the same
        return False


def _takes_nothing(function: Any) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
