"""`@redrive.retry` on everything it guards."""

import asyncio
import contextlib
import dataclasses
import functools
import inspect
import math
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
import trio

import redrive
from redrive.testing import no_waits, scripted_dice, virtual_clock


class Flaky:
    """Fails with `errors` in turn, then returns "done"."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    async def run(self) -> str:
        return self()


def always(error: BaseException, times: int = 1000) -> Flaky:
    return Flaky(*[error] * times)


def runners() -> list[Any]:
    """One guarded call of a flaky object, each way there is to make it."""

    def decorated(work: Flaky, **settings: Any) -> Any:
        return redrive.retry(**settings)(lambda: work())()

    def retrier_call(work: Flaky, **settings: Any) -> Any:
        return redrive.retry(**settings)(lambda: None).retrier.call(work)  # type: ignore[attr-defined]

    def loop(work: Flaky, **settings: Any) -> Any:
        for attempt in redrive.attempts(**settings):
            with attempt:
                result = work()
        return result

    def asyncio_decorated(work: Flaky, **settings: Any) -> Any:
        return asyncio.run(redrive.retry(**settings)(work.run)())

    def asyncio_acall(work: Flaky, **settings: Any) -> Any:
        retrier = redrive.retry(**settings)(lambda: None).retrier  # type: ignore[attr-defined]
        return asyncio.run(retrier.acall(work.run))

    def asyncio_loop(work: Flaky, **settings: Any) -> Any:
        async def main() -> Any:
            async for attempt in redrive.attempts(**settings):
                with attempt:
                    result = await work.run()
            return result

        return asyncio.run(main())

    def trio_decorated(work: Flaky, **settings: Any) -> Any:
        return trio.run(redrive.retry(**settings)(work.run))

    def trio_loop(work: Flaky, **settings: Any) -> Any:
        async def main() -> Any:
            async for attempt in redrive.attempts(**settings):
                with attempt:
                    result = await work.run()
            return result

        return trio.run(main)

    ways = [
        decorated, retrier_call, loop, asyncio_decorated, asyncio_acall, asyncio_loop, trio_decorated, trio_loop,
    ]  # fmt: skip
    return [pytest.param(way, id=way.__name__) for way in ways]


Run = Callable[..., Any]
every_way = pytest.mark.parametrize("run", runners())


@every_way
@pytest.mark.promise("T1", "P5")
def test_three_attempts_by_default_with_the_default_waits(run: Run) -> None:
    work = Flaky(ConnectionError(), ConnectionError())
    with virtual_clock() as clock, scripted_dice(0.0, 1.0):
        assert run(work) == "done"
    assert work.calls == 3
    assert clock.waits == [0.5, 1.25]


@every_way
@pytest.mark.promise("T1", "P12", "P19")
@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_the_original_error_is_raised_after_the_last_attempt_with_all_attempts_attached(
    run: Run, attempts: int
) -> None:
    errors = [ConnectionError(f"number {n}") for n in range(attempts)]
    work = Flaky(*errors)
    with virtual_clock(), pytest.raises(ConnectionError) as caught:
        run(work, attempts=attempts)
    assert caught.value is errors[-1]
    report = redrive.report_of(caught.value)
    assert report is not None
    assert [record.number for record in report.attempts] == list(range(1, attempts + 1))
    assert [record.failure.message for record in report.attempts] == [f"number {n}" for n in range(attempts)]
    assert report.gave_up.kind == "exhausted"
    shown = "".join(traceback.format_exception(caught.value))
    assert f"gave up after {attempts} attempt" in shown
    assert "Next: " in shown


@every_way
@pytest.mark.promise("P2", "T2", "P19")
@pytest.mark.parametrize("error", [ValueError("bad"), PermissionError(13, "no"), redrive.Permanent("never")])
def test_permanent_failures_run_once(run: Run, error: Exception) -> None:
    work = always(error)
    with virtual_clock(), pytest.raises(type(error)) as caught:
        run(work)
    assert work.calls == 1
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "permanent"


@every_way
@pytest.mark.promise("P4")
def test_unknown_failures_run_once_and_the_report_says_how_to_declare_them(run: Run) -> None:
    class OddError(Exception):
        pass

    work = always(OddError())
    with virtual_clock(), pytest.raises(OddError) as caught:
        run(work)
    assert work.calls == 1
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "unknown"
    assert "OddError" in report.next_step
    declared = always(OddError(), 2)
    with virtual_clock():
        assert run(declared, retry_on=(redrive.TRANSIENT, OddError)) == "done"


@every_way
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_what_is_not_an_exception_is_never_retried(run: Run, error: BaseException) -> None:
    work = always(error)
    with virtual_clock(), pytest.raises((type(error), BaseExceptionGroup)):
        run(work, retry_on=redrive.ANYTHING)
    assert work.calls == 1


@every_way
@pytest.mark.promise("P6")
def test_no_attempt_begins_after_the_deadline(run: Run) -> None:
    work = always(ConnectionError())
    with virtual_clock() as clock, pytest.raises(ConnectionError) as caught:
        run(work, attempts=None, deadline="10s", backoff=redrive.constant(3), jitter="none")
    assert work.calls == 4
    assert clock.now == 9
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "deadline"


@every_way
@pytest.mark.promise("P7", "P19")
def test_retry_after_takes_precedence_over_the_computed_wait(run: Run) -> None:
    with virtual_clock() as clock:
        run(Flaky(redrive.RetryAfter("7s", "later"), redrive.RetryAfter(20)))
    assert clock.waits == [7, 20]
    with virtual_clock() as clock, pytest.raises(redrive.RetryAfter) as caught:
        run(Flaky(redrive.RetryAfter(61)))
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "retry_after"
    assert clock.waits == []


@every_way
@pytest.mark.promise("P7")
def test_asking_for_a_retry_needs_no_mention_in_on(run: Run) -> None:
    with virtual_clock() as clock:
        assert run(Flaky(redrive.RetryAfter(3)), retry_on=KeyError) == "done"
    assert clock.waits == [3]
    only_rules = [redrive.Rule(match=redrive.failures.as_match(KeyError), retries=2)]
    with virtual_clock() as clock:
        assert run(Flaky(redrive.RetryAfter(3)), retry_on=(), rules=only_rules) == "done"
    assert clock.waits == [3]


@every_way
def test_a_transient_failure_that_the_policy_does_not_name_is_said_to_be_that(run: Run) -> None:
    work = always(ConnectionError())
    with virtual_clock(), pytest.raises(ConnectionError) as caught:
        run(work, retry_on=KeyError)
    assert work.calls == 1
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "unmatched"
    assert "does not name it" in report.next_step


@every_way
@pytest.mark.promise("R3")
def test_rules_answer_first_each_with_its_own_counter(run: Run) -> None:
    class RateLimitError(Exception):
        pass

    rules = (
        redrive.Rule(match=redrive.failures.Match(names=("RateLimitError",)), retries=2, backoff=redrive.constant(60)),
    )
    settings = {"attempts": None, "deadline": None, "rules": rules, "jitter": "none", "max_wait": None}
    work = Flaky(RateLimitError(), ConnectionError(), RateLimitError(), ConnectionError())
    with virtual_clock() as clock:
        assert run(work, **settings) == "done"
    assert clock.waits == [60, 0.5, 60, 1]
    with virtual_clock(), pytest.raises(RateLimitError):
        run(always(RateLimitError()), **settings)


@every_way
@pytest.mark.promise("P9")
def test_a_wait_of_zero_is_lifted_to_the_floor(run: Run) -> None:
    with virtual_clock() as clock:
        run(Flaky(ConnectionError(), ConnectionError()), backoff=0, jitter="none")
    assert clock.waits == [0.1, 0.1]


@every_way
@pytest.mark.promise("P10", "P19")
def test_work_declared_not_idempotent_is_retried_only_before_it_was_sent(run: Run) -> None:
    maybe_done = always(ConnectionResetError())
    with virtual_clock(), pytest.raises(ConnectionResetError) as caught:
        run(maybe_done, idempotent=False)
    assert maybe_done.calls == 1
    report = redrive.report_of(caught.value)
    assert report is not None
    assert "idempotency key" in report.next_step
    never_sent = Flaky(ConnectionRefusedError(), ConnectionRefusedError())
    with virtual_clock():
        assert run(never_sent, idempotent=False) == "done"


@every_way
def test_success_leaves_no_trace(run: Run) -> None:
    with virtual_clock() as clock:
        assert run(Flaky()) == "done"
    assert clock.waits == []


def test_results_can_be_failures() -> None:
    answers = iter(["busy", "busy", "ready"])

    @redrive.retry(retry_result=lambda answer: answer == "busy")
    def poll() -> str:
        return next(answers)

    with virtual_clock() as clock:
        assert poll() == "ready"
    assert len(clock.waits) == 2

    @redrive.retry(retry_result=lambda answer: answer == "busy")
    def never() -> str:
        return "busy"

    with virtual_clock(), pytest.raises(redrive.errors.ResultRejectedError) as caught:
        never()
    assert caught.value.result == "busy"


def test_methods_class_methods_static_methods_and_partials() -> None:
    class Service:
        calls = 0

        @redrive.retry
        def method(self, x: int, *, y: int = 0) -> tuple[int, int]:
            Service.calls += 1
            if Service.calls % 2:
                raise ConnectionError
            return (x, y)

        @redrive.retry
        @classmethod
        def of_class(cls, x: int) -> tuple[type, int]:
            return (cls, x)

        @redrive.retry
        @staticmethod
        def static(x: int) -> int:
            return x

    with virtual_clock():
        assert Service().method(1, y=2) == (1, 2)
        assert Service.method(Service(), 3) == (3, 0)
        assert Service.of_class(4) == (Service, 4)
        assert Service.static(5) == 5
        assert redrive.retry(functools.partial(Service.static, 6))() == 6
    assert Service.calls == 4


def test_a_partial_of_an_object_whose_call_is_a_coroutine_function_is_one_too() -> None:
    class Service:
        calls = 0

        async def __call__(self, x: int) -> int:
            self.calls += 1
            if self.calls < 3:
                raise ConnectionError
            return x

    guarded = redrive.retry(functools.partial(functools.partial(Service()), 7))
    with virtual_clock():
        assert asyncio.run(guarded()) == 7


def test_the_wrapper_looks_like_the_function() -> None:
    @redrive.retry
    def documented(x: int, y: str = "") -> str:
        """What it does."""
        return y * x

    @redrive.retry
    async def awaited() -> None:
        """And this."""

    assert (documented.__name__, documented.__doc__) == ("documented", "What it does.")
    assert list(inspect.signature(documented).parameters) == ["x", "y"]
    assert inspect.iscoroutinefunction(awaited)
    assert not inspect.iscoroutinefunction(documented)


def test_generators_restart_at_any_time_if_that_is_asked_for() -> None:
    failures = [ConnectionError(), ConnectionError()]

    @redrive.retry(generators="restart")
    def flaky_numbers(limit: int) -> Iterator[int]:
        yield 1
        if failures:
            raise failures.pop()
        yield from range(2, limit)

    with virtual_clock() as clock:
        assert list(flaky_numbers(4)) == [1, 1, 1, 2, 3]
    assert len(clock.waits) == 2


def test_async_generators_restart_too() -> None:
    failures = [ConnectionError()]

    @redrive.retry(generators="restart")
    async def flaky_numbers() -> AsyncIterator[int]:
        yield 1
        if failures:
            raise failures.pop()
        yield 2

    async def main() -> list[int]:
        return [number async for number in flaky_numbers()]

    with virtual_clock():
        assert asyncio.run(main()) == [1, 1, 2]


def test_what_is_sent_and_thrown_reaches_a_generator_and_is_no_failure_of_its_own() -> None:
    opened = []

    @contextlib.contextmanager
    @redrive.retry(generators="restart")
    def session() -> Iterator[int]:
        opened.append(1)
        yield 1

    with pytest.raises(ConnectionError, match="in the body"), session():
        raise ConnectionError("in the body")
    assert opened == [1]

    @redrive.retry(generators="restart")
    def echo() -> Generator[Any, Any, str]:
        said = None
        while said != "end":
            try:
                said = yield said
            except ValueError as error:
                said = f"heard {error}"
        return "done"

    @redrive.retry(generators="restart")
    async def async_echo() -> AsyncGenerator[Any, Any]:
        said = None
        while True:
            try:
                said = yield said
            except ValueError as error:
                said = f"heard {error}"

    talk = echo()
    assert [next(talk), talk.send("a"), talk.throw(ValueError("b")), talk.send("c")] == [None, "a", "heard b", "c"]
    with pytest.raises(StopIteration) as ended:
        talk.send("end")
    assert ended.value.value == "done"

    async def main() -> list[Any]:
        talk = async_echo()
        try:
            return [await anext(talk), await talk.asend("a"), await talk.athrow(ValueError("b")), await talk.asend("c")]
        finally:
            await talk.aclose()

    assert asyncio.run(main()) == [None, "a", "heard b", "c"]


class Items:
    def __call__(self) -> Iterator[int]:
        yield 1


def _items() -> Iterator[int]:
    yield 1


async def _coroutine(*_: Any) -> bool:
    return False


class ConflictError(Exception):
    status_code = 409


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: redrive.retry(generators="restart", fallback=1)(_items), "need a single result"),
        (lambda: redrive.Policy(idempotent=0), "idempotent"),  # type: ignore[arg-type]
        (lambda: redrive.Policy(floor=None), "floor"),  # type: ignore[arg-type]
        (lambda: redrive.Policy(jitter=redrive.policies.Jitter("additive", None)), "jitter"),  # type: ignore[arg-type]
        (lambda: redrive.failures.Match(categories=None), "categories"),  # type: ignore[arg-type]
        (lambda: redrive.failures.Match(statuses=((599, 500),)), "statuses"),
        (lambda: redrive.retry(rules=5), "use a list of Rule"),  # type: ignore[call-overload]
        (lambda: redrive.retry(retry_on=None), "retry_on"),  # type: ignore[call-overload]
        (lambda: redrive.failures.Match(statuses=(429,)), "statuses"),  # type: ignore[arg-type]
        (lambda: redrive.failures.Match(types=OSError), "types"),  # type: ignore[arg-type]
        (lambda: redrive.failures.Match(names="ValueError"), "names"),  # type: ignore[arg-type]
        (lambda: redrive.failures.Match(categories=("bogus",)), "categories"),
        (lambda: redrive.retry(dependency=3), "dependency"),  # type: ignore[call-overload]
        (lambda: redrive.retry(dependency=""), "dependency"),
        (lambda: redrive.CircuitSettings(cooldown="5s"), "cooldown"),  # type: ignore[arg-type]
        (lambda: redrive.CircuitSettings(cooldown=10**400), "cooldown"),
        (lambda: redrive.CircuitSettings(probe_expires=math.inf), "probe_expires"),
        (lambda: redrive.BudgetSettings(window=1e-320), "window"),
        (lambda: redrive.BudgetSettings(window=10**400), "window"),
        (lambda: redrive.BudgetSettings(floor=10**400), "floor"),
        (lambda: redrive.define_dependency("bad", circuit=5), r"use CircuitSettings\("),  # type: ignore[arg-type]
        (lambda: redrive.define_dependency("bad", budget=5), r"use BudgetSettings\("),  # type: ignore[arg-type]
        (lambda: redrive.define_dependency(5), "such as 'payments'"),  # type: ignore[arg-type]
        (lambda: redrive.failures.Classifier(statuses=5), "use a mapping such as"),  # type: ignore[arg-type]
        (lambda: redrive.correlate(None).__enter__(), "use text, a UUID"),
        (lambda: redrive.retry(jitter="bogus"), "decorrelated"),
        (lambda: redrive.retry(backoff="constant 2s"), "redrive.constant"),
        (lambda: redrive.Policy(deadline="5s"), "as a number"),  # type: ignore[arg-type]
        (lambda: redrive.retry(redrive.Retrier()), "retrier.wrap"),  # type: ignore[call-overload]
        (lambda: redrive.attempts(redrive.Retrier()), "retrier.attempts"),  # type: ignore[arg-type]
        (lambda: redrive.Retrier(fallback=1).attempts(), "no result"),
        (lambda: redrive.Policy(retry_on=5.5), "retry_on"),  # type: ignore[arg-type]
        (lambda: redrive.Policy(backoff="1s"), "backoff"),  # type: ignore[arg-type]
        (lambda: redrive.Policy(jitter="full"), "jitter"),  # type: ignore[arg-type]
        (lambda: redrive.Policy(jitter=redrive.policies.Jitter("wild")), "jitter"),  # type: ignore[arg-type]
        (lambda: redrive.Policy(rules=[5]), "rules"),  # type: ignore[arg-type]
        (lambda: redrive.Rule(match=5.5), "match"),  # type: ignore[arg-type]
        (lambda: redrive.retry(5), "retry takes a function"),  # type: ignore[call-overload]
        (lambda: redrive.retry(attempts=0), "use 1"),
        (lambda: redrive.retry(deadline="soon"), "deadline"),
        (lambda: redrive.retry(tries=3), "tries"),  # type: ignore[call-overload]
        (lambda: redrive.retry(retry_on=KeyboardInterrupt), "never retried"),
        (lambda: redrive.retry(retry_on=5.5), "cannot tell"),  # type: ignore[call-overload]
        (lambda: redrive.retry(jitter="additive"), "needs a maximum"),
        (lambda: redrive.retry(jitter="proportional"), 'write jitter="10%"'),
        (lambda: redrive.retry(jitter="1001%"), "jitter"),
        (lambda: redrive.Policy(jitter=redrive.policies.Jitter("proportional", 10.5)), "from 0 to 10"),
        (lambda: redrive.retry(int), "guard the methods"),
        (lambda: redrive.Retrier(3), "Policy"),  # type: ignore[arg-type]
        (lambda: list(redrive.attempts(attempt_timeout=1)), "async for"),
        (lambda: redrive.retry(classifier=3), "classifier: use a Classifier, not int"),  # type: ignore[call-overload]
        (lambda: redrive.retry(retry_result=3), "retry_result: use a function"),  # type: ignore[call-overload]
        (lambda: redrive.retry(reread=3), "reread: use a function"),  # type: ignore[call-overload]
        (lambda: redrive.retry(reread=_coroutine)(len), "len: reread is a coroutine function"),
        (lambda: redrive.retry(reread=_coroutine, generators="restart")(_items), "reread is a coroutine function"),
        (lambda: redrive.retry(retry_result=_coroutine), "retry_result: use a plain function"),  # type: ignore[arg-type]
        (lambda: redrive.retry(on_event=3), "on_event: use a function"),  # type: ignore[call-overload]
        (lambda: redrive.retry(generators="x"), 'use "first_output" or "restart"'),  # type: ignore[call-overload]
        (lambda: redrive.retry(attempt_timeout=1)(Items()), "attempt_timeout cannot cut a plain generator"),
        (lambda: redrive.retry(attempt_timeout=1, generators="restart")(_items), "use deadline for a generator"),
    ],
)
def test_wrong_use_is_refused_with_what_to_write(wrong: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        wrong()


def test_a_loop_without_with_is_refused() -> None:
    with pytest.raises(RuntimeError, match="with attempt"):
        for _attempt in redrive.attempts():
            pass


def test_an_attempt_is_made_once() -> None:
    for attempt in redrive.attempts():
        with attempt:
            pass
        with pytest.raises(RuntimeError, match="already been made"), attempt:
            int("what a second time would hide")


def test_a_plain_function_that_returns_a_coroutine_is_refused_everywhere() -> None:
    async def fetch() -> None:
        raise ConnectionError

    guarded = redrive.retry(functools.wraps(fetch)(lambda: fetch()))
    for call in (guarded, redrive.retry(functools.partial(guarded))):
        with pytest.raises(TypeError, match="plain function that returned a coroutine"):
            _ = call()


def test_a_coroutine_function_given_to_call_is_refused() -> None:
    async def work() -> None:
        return None

    with pytest.raises(TypeError, match="acall"):
        _ = redrive.Retrier().call(work)


def test_a_coroutine_that_nobody_would_await_is_refused_at_the_call() -> None:
    hidden: Any = lambda *_: _coroutine()  # noqa: E731 - hides that it is a coroutine function
    saves = always(ConflictError())
    with virtual_clock(), pytest.raises(TypeError, match="reread is a coroutine function"):
        redrive.retry(reread=hidden)(saves)()
    assert saves.calls == 1
    with virtual_clock(), pytest.raises(TypeError, match="reread is a coroutine function"):
        redrive.Retrier(reread=_coroutine).call(always(ConflictError()))
    with pytest.raises(TypeError, match="retry_result returned a coroutine"):
        redrive.retry(retry_result=hidden)(lambda: 1)()


@pytest.mark.promise("P3", "P19")
def test_a_409_is_permanent_unless_declared_a_lock_conflict_and_then_the_state_is_reread() -> None:
    story: list[str] = []

    def save() -> str:
        story.append("save")
        if story.count("save") < 3:
            raise ConflictError
        return "saved"

    with virtual_clock(), pytest.raises(ConflictError):
        redrive.retry(save)()
    assert story == ["save"]
    story.clear()
    with virtual_clock():
        assert redrive.retry(reread=lambda: story.append("reread"))(save)() == "saved"
    assert story == ["save", "reread", "save", "reread", "save"]
    story.clear()

    async def asave() -> str:
        return save()

    async def areread() -> None:
        story.append("reread")

    with virtual_clock():
        assert asyncio.run(redrive.retry(reread=areread)(asave)()) == "saved"
    assert story == ["save", "reread", "save", "reread", "save"]


def test_the_fast_path_and_the_driver_agree_without_a_test_clock() -> None:
    work = Flaky(ConnectionError(), ConnectionError())
    assert redrive.retry(floor=0, backoff=0, jitter="none")(work)() == "done"
    assert work.calls == 3
    async_work = Flaky(ConnectionError(), ConnectionError())
    assert asyncio.run(redrive.retry(floor=0, backoff=0, jitter="none")(async_work.run)()) == "done"
    assert async_work.calls == 3


def test_many_attempts_do_not_fill_the_memory() -> None:
    calls = 0

    @redrive.retry(attempts=None, deadline=None)
    def fail_for_long() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError if calls <= 1000 else redrive.Permanent("enough")

    with no_waits(), pytest.raises(redrive.Permanent) as caught:
        fail_for_long()
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.made == 1001
    assert len(report.attempts) == 100
    assert [record.number for record in report.attempts][:11] == [*range(1, 11), 912]
    before, gap, after = str(report).splitlines()[10:13]
    assert "attempt 10:" in before
    assert "901 more attempts" in gap
    assert "attempt 912:" in after


def test_an_error_object_raised_again_keeps_one_note() -> None:
    error = ConnectionError("shared")

    @redrive.retry(attempts=1)
    def fail() -> None:
        raise error

    for _ in range(3):
        with pytest.raises(ConnectionError):
            fail()
    assert len(error.__notes__) == 1


class RefusingError(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


class HostileError(Exception):
    def __getattr__(self, name: str) -> object:
        raise KeyError(name)


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    code: int = 7


@pytest.mark.parametrize(
    "error", [RefusingError(), HostileError(), FrozenError()], ids=lambda error: type(error).__name__
)
def test_errors_of_strange_classes_are_raised_as_they_are_with_their_report(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        redrive.retry(attempts=2, retry_on=Exception, backoff=0, floor=0, jitter="none")(always(error))()
    assert caught.value is error
    report = redrive.report_of(error)
    assert report is not None
    assert report.made == 2


@pytest.mark.parametrize(
    "failures",
    [OSError, (KeyError, "builtins.OSError"), redrive.failures.as_match(OSError), lambda error: True, "transient"],
)
def test_a_policy_and_a_guard_name_failures_in_the_same_way(failures: Any) -> None:
    policy = redrive.Policy(retry_on=failures, never_on=failures, rules=(redrive.Rule(match=failures),))
    settings = redrive.Retrier(retry_on=failures, never_on=failures).policy
    assert policy.retry_on == policy.never_on == policy.rules[0].match == redrive.failures.as_match(failures)
    assert (settings.retry_on, settings.never_on) == (policy.retry_on, policy.never_on)
