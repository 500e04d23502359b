"""What answers when a call has given up."""

import asyncio
import pickle

import pytest

import redrive
from redrive import fallback
from redrive.calls.fallback import Aged, GivenUpCall
from redrive.telemetry.events import Event, FallbackUsed
from redrive.testing import virtual_clock

pytestmark = pytest.mark.promise("P12")


def fail(*args: object, **kwargs: object) -> str:
    raise ConnectionError("down")


async def afail(*args: object, **kwargs: object) -> str:
    raise ConnectionError("down")


def test_a_value_a_function_and_a_coroutine_function() -> None:
    with virtual_clock():
        assert redrive.retry(fallback=fallback.value(None))(fail)() is None
        assert redrive.retry(fallback="degraded")(fail)() == "degraded"
        assert redrive.retry(fallback=lambda name: f"guest {name}")(fail)("ann") == "guest ann"
        with_error = fallback.call(lambda error, name: f"{error} {name}", with_error=True)
        assert redrive.retry(fallback=with_error)(fail)("ann") == "down ann"

        async def degraded() -> str:
            return "async"

        assert asyncio.run(redrive.retry(fallback=degraded)(afail)()) == "async"


@pytest.mark.parametrize("error", [ValueError("bad"), redrive.Permanent("no"), RuntimeError("unknown")])
def test_a_fault_is_not_covered_up(error: Exception) -> None:
    def faulty() -> str:
        raise error

    with virtual_clock(), pytest.raises(type(error)):
        redrive.retry(fallback="degraded")(faulty)()


def test_an_open_circuit_is_answered_too() -> None:
    guarded = redrive.retry(fallback="degraded", dependency="test-fallback-circuit")(fail)
    with virtual_clock():
        assert [guarded() for _ in range(5)] == ["degraded"] * 5


def test_the_last_good_value_of_the_same_arguments_with_its_age() -> None:
    up = True

    @redrive.retry(fallback=fallback.last_good("1h", with_age=True))
    def price(item: str) -> str:
        if not up:
            raise ConnectionError
        return f"price of {item}"

    with virtual_clock() as clock:
        assert price("tea") == "price of tea"
        up = False
        clock.advance(100)
        answer: object = price("tea")
        assert isinstance(answer, Aged)
        assert answer.value == "price of tea"
        assert answer.age == pytest.approx(100, abs=3)
        with pytest.raises(ConnectionError):
            price("coffee")
        clock.advance(3600)
        with pytest.raises(ConnectionError):
            price("tea")


def test_the_last_good_value_is_found_whether_arguments_come_by_position_or_by_name() -> None:
    up = True

    @redrive.retry(fallback=fallback.last_good())
    def rate(source: str, target: str = "EUR", *, day: int = 0, **more: int) -> tuple[object, ...]:
        if not up:
            raise ConnectionError("down")
        return source, target, day, more

    with virtual_clock():
        assert rate("USD", "GBP") == ("USD", "GBP", 0, {})
        assert rate(source="USD", day=3, hour=4) == ("USD", "EUR", 3, {"hour": 4})
        up = False
        assert rate("USD", target="GBP") == rate(target="GBP", source="USD") == ("USD", "GBP", 0, {})
        assert rate("USD", hour=4, day=3) == ("USD", "EUR", 3, {"hour": 4})
        with pytest.raises(ConnectionError):
            rate("GBP", target="USD")


def test_the_last_good_value_of_a_function_that_does_not_say_what_it_takes() -> None:
    up = True

    class Silent:
        __signature__ = "none"

        def __call__(self, **kwargs: int) -> int:
            if not up:
                raise ConnectionError("down")
            return kwargs["number"]

    silent = Silent()
    retrier = redrive.Retrier(fallback=fallback.last_good())
    with virtual_clock():
        assert retrier.call(silent, number=7) == 7
        up = False
        assert retrier.call(silent, number=7) == 7


def test_functions_that_share_a_retrier_do_not_share_their_last_good_values() -> None:
    up = True

    def user(number: int) -> str:
        return f"user {number}" if up else fail()

    def order(number: int) -> str:
        return fail()

    retrier = redrive.Retrier(fallback=fallback.last_good(), operation="shop")
    with virtual_clock():
        assert retrier.call(user, 7) == "user 7"
        up = False
        assert retrier.call(user, 7) == "user 7"
        with pytest.raises(ConnectionError):
            retrier.call(order, 7)


class Account:
    """Two of them are equal and have the same hash; their methods are not the same function."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.up = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account)

    def __hash__(self) -> int:
        return 1

    def balance(self) -> str:
        return f"balance of {self.owner}" if self.up else fail()


def test_the_last_good_value_of_a_method_belongs_to_its_object() -> None:
    ann, bob = Account("ann"), Account("bob")
    retrier = redrive.Retrier(fallback=fallback.last_good())
    with virtual_clock():
        assert retrier.call(ann.balance) == "balance of ann"
        ann.up = bob.up = False
        assert retrier.call(ann.balance) == "balance of ann"
        with pytest.raises(ConnectionError):
            retrier.call(bob.balance)


def test_the_last_good_values_are_bounded_and_unhashable_arguments_do_no_harm() -> None:
    cache = fallback.last_good(limit=2)
    up = True

    @redrive.retry(fallback=cache)
    def echo(what: object) -> object:
        if not up:
            raise ConnectionError
        return what

    with virtual_clock():
        for what in (1, 2, 3, [4]):
            assert echo(what) == what
        up = False
        assert echo(3) == 3
        with pytest.raises(ConnectionError):
            echo(1)
        with pytest.raises(ConnectionError):
            echo([4])


def test_a_key_function_that_fails_costs_the_last_good_value_only(caplog: pytest.LogCaptureFixture) -> None:
    up = True

    def of_user(user: dict[str, str]) -> str:
        return user["id"]

    @redrive.retry(fallback=fallback.last_good(key=of_user))
    def charge(user: dict[str, str]) -> str:
        if not up:
            raise ConnectionError("down")
        return "receipt"

    with virtual_clock():
        assert [charge({"name": "bob"}), charge({"name": "ann"})] == ["receipt"] * 2
        up = False
        with pytest.raises(ConnectionError):
            charge({"name": "bob"})
    assert [line for line in caplog.messages if line.startswith("last_good")] == [
        "last_good cannot keep a result: making the key of its call raised KeyError"
    ]


def test_a_queue_gets_the_call_and_its_report() -> None:
    queued: list[GivenUpCall] = []

    def enqueue(call: GivenUpCall) -> str:
        queued.append(call)
        return f"job-{len(queued)}"

    with virtual_clock():
        assert redrive.retry(fallback=fallback.queue(enqueue))(fail)("u1", cents=100) == "job-1"
    (call,) = queued
    assert (call.args, call.kwargs) == (("u1",), {"cents": 100})
    report = redrive.report_of(call.error)
    assert report is not None
    assert len(report.attempts) == 3
    assert "u1" not in repr(call)


@redrive.retry(fallback=fallback.queue(pickle.dumps), attempts=1)
def send_later(mail: str) -> bytes:
    raise ConnectionError("down")


def test_a_queue_may_pickle_the_call() -> None:
    call = pickle.loads(send_later("hello"))  # noqa: S301 - our own bytes
    assert (call.operation, call.args, call.kwargs, str(call.error)) == ("send_later", ("hello",), {}, "down")


@pytest.mark.promise("P10")
@pytest.mark.parametrize("on", [Exception, BrokenPipeError], ids=["retried otherwise", "not named by the policy"])
def test_a_queue_does_not_get_what_may_be_done_already_and_must_not_be_twice(on: type[Exception]) -> None:
    def charge(cents: int) -> str:
        raise ConnectionResetError("no answer")

    queue = fallback.queue(lambda call: "queued")
    with virtual_clock(), pytest.raises(ConnectionResetError) as caught:
        redrive.retry(fallback=queue, retry_on=on, idempotent=False)(charge)(100)
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.made == 1


def test_a_queue_gets_what_certainly_was_not_done() -> None:
    def charge(cents: int) -> str:
        raise ConnectionRefusedError

    queue = fallback.queue(lambda call: "queued")
    with virtual_clock():
        assert redrive.retry(fallback=queue, idempotent=False)(charge)(100) == "queued"


def test_a_call_with_effects_inside_that_must_not_come_twice_is_not_queued() -> None:
    @redrive.retry(idempotent=False)
    def charge() -> str:
        raise ConnectionResetError("no answer")

    @redrive.retry(fallback=fallback.queue(lambda call: "queued"))
    def order() -> str:
        return charge()

    with virtual_clock(), pytest.raises(ConnectionResetError):
        order()


def test_a_fallback_that_fails_raises_its_error_because_of_the_first() -> None:
    def broken() -> str:
        raise RuntimeError("the fallback too")

    with virtual_clock(), pytest.raises(RuntimeError) as caught:
        redrive.retry(fallback=broken)(fail)()
    assert isinstance(caught.value.__cause__, ConnectionError)


async def broken_coroutine() -> str:
    raise RuntimeError("the fallback too")


def test_an_async_fallback_that_fails_raises_its_error_because_of_the_first() -> None:
    events: list[Event] = []
    guarded = redrive.retry(fallback=broken_coroutine, on_event=events.append)(afail)
    with virtual_clock(), pytest.raises(RuntimeError) as caught:
        asyncio.run(guarded())
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert not [event for event in events if isinstance(event, FallbackUsed)]


@pytest.mark.promise("P16")
def test_an_async_fallback_that_fails_does_not_multiply_the_attempts() -> None:
    calls: list[int] = []

    @redrive.retry(fallback=broken_coroutine)
    async def inner() -> str:
        calls.append(1)
        raise ConnectionError("down")

    @redrive.retry(retry_on=(Exception,))
    async def outer() -> str:
        return await inner()

    with virtual_clock(), pytest.raises(RuntimeError):
        asyncio.run(outer())
    assert len(calls) == 3


def test_a_coroutine_function_cannot_answer_for_a_plain_call() -> None:
    with virtual_clock(), pytest.raises(TypeError, match="use a plain function") as caught:
        redrive.retry(fallback=afail)(fail)()
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_it_is_told_that_a_fallback_answered() -> None:
    events: list[Event] = []
    with virtual_clock():
        redrive.retry(fallback="x", on_event=events.append)(fail)()
    used = [event for event in events if isinstance(event, FallbackUsed)]
    assert [event.fallback for event in used] == ["value"]


def test_what_a_fallback_holds_is_not_shown() -> None:
    assert "hunter2" not in repr(fallback.value("hunter2"))


def test_what_a_fallback_calls_has_its_own_time_and_its_own_retries() -> None:
    calls: list[int] = []
    with virtual_clock() as clock:

        @redrive.retry(deadline=5)
        async def second() -> str:
            calls.append(1)
            if len(calls) < 3:
                raise ConnectionError
            return "from the second"

        @redrive.retry(fallback=lambda: second(), deadline=2)
        async def first() -> str:
            await clock.asleep(3600)
            return "from the first"

        assert asyncio.run(first()) == "from the second"
    assert len(calls) == 3


@pytest.mark.promise("P16")
@pytest.mark.parametrize("without_answer", [fallback.last_good(), fail], ids=["no last good value", "it fails too"])
def test_a_fallback_without_an_answer_does_not_multiply_the_attempts(without_answer: object) -> None:
    calls: list[int] = []

    @redrive.retry(fallback=without_answer)
    def inner() -> str:
        calls.append(1)
        raise ConnectionError("down")

    with virtual_clock(), pytest.raises(ConnectionError):
        redrive.retry(lambda: inner())()
    assert len(calls) == 3
