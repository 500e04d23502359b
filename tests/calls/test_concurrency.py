"""1,000 tasks and 32 threads share one policy, circuit and budget: the counts are exact."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import redrive
from redrive.telemetry.events import AttemptFailed, CallRecovered, Event


class Counts:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counter: Counter[str] = Counter()

    def add(self, what: str) -> None:
        with self.lock:
            self.counter[what] += 1

    def on_event(self, event: Event) -> None:
        if isinstance(event, AttemptFailed):
            self.add(type(event.decision).__name__)
        elif isinstance(event, CallRecovered):
            self.add("recovered")


def shared(counts: Counts, calls: int, share: float) -> redrive.Retrier:
    return redrive.Retrier(
        redrive.Policy(
            attempts=3, backoff=redrive.constant(0), jitter=redrive.policies.Jitter("none"), floor=0, deadline=None
        ),
        dependency=redrive.resilience.Dependency(
            "shared",
            redrive.resilience.Circuit("shared", redrive.CircuitSettings(failures=calls * 3)),
            redrive.resilience.Budget(redrive.BudgetSettings(ratio=share, floor=0, window=3600)),
        ),
        on_event=counts.on_event,
    )


@pytest.mark.promise("P13", "P14")
def test_a_thousand_tasks() -> None:
    counts = Counts()
    retrier = shared(counts, 1000, 1.0)

    async def fail_twice(number: int, tries: list[int]) -> int:
        counts.add("called")
        tries.append(1)
        await asyncio.sleep(0)
        if len(tries) < 2:
            raise ConnectionError
        return number

    async def main() -> list[int]:
        return await asyncio.gather(*(retrier.acall(fail_twice, number, []) for number in range(1000)))

    assert asyncio.run(main()) == list(range(1000))
    assert counts.counter == {"called": 2000, "RetryAt": 1000, "recovered": 1000}
    dependency = retrier.dependency
    assert dependency is not None
    assert dependency.budget is not None
    assert dependency.budget._left() == 0


@pytest.mark.promise("P13", "P14")
def test_thirty_two_threads() -> None:
    counts = Counts()
    retrier = shared(counts, 3200, 0.1)

    def always_fail() -> None:
        counts.add("called")
        raise ConnectionError

    def many() -> int:
        failed = 0
        for _ in range(100):
            try:
                retrier.call(always_fail)
            except ConnectionError:
                failed += 1
        return failed

    with ThreadPoolExecutor(32) as pool:
        failed = sum(future.result() for future in [pool.submit(many) for _ in range(32)])
    assert failed == 3200
    assert counts.counter["GiveUp"] == 3200
    # Every request that was made is counted, and so is every retry: no more than a tenth, and no fewer.
    assert counts.counter["RetryAt"] == 320
    assert counts.counter["called"] == 3520


def test_thirty_two_threads_share_a_guarded_function() -> None:
    counts = Counts()

    @redrive.retry(backoff=0, floor=0, jitter="none")
    def fail_twice(tries: list[int]) -> int:
        counts.add("called")
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError
        return len(tries)

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(lambda _: fail_twice([]), range(3200)))
    assert results == [3] * 3200
    assert counts.counter["called"] == 9600


@pytest.mark.promise("P13")
def test_the_circuit_opens_after_exactly_its_count_whoever_fails() -> None:
    for _ in range(20):
        circuit = redrive.resilience.Circuit("exact", redrive.CircuitSettings(failures=50))
        retrier = redrive.Retrier(
            redrive.Policy(attempts=1), dependency=redrive.resilience.Dependency("exact", circuit, None)
        )
        outcomes: Counter[str] = Counter()
        lock, barrier = threading.Lock(), threading.Barrier(32)

        def knock(retrier: redrive.Retrier = retrier, barrier: threading.Barrier = barrier) -> list[str]:
            barrier.wait()
            seen = []
            for _ in range(10):
                try:
                    retrier.call(_fail)
                except (ConnectionError, redrive.CircuitOpenError) as error:
                    seen.append(type(error).__name__)
            return seen

        with ThreadPoolExecutor(32) as pool:
            for seen in pool.map(lambda _: knock(), range(32)):
                with lock:
                    outcomes.update(seen)
        # Calls admitted before the 50th failure was reported may finish after it; no more than one a thread.
        assert 50 <= outcomes["ConnectionError"] <= 50 + 31
        assert outcomes["ConnectionError"] + outcomes["CircuitOpenError"] == 320
        assert circuit.state.phase == "open"


def _fail() -> None:
    raise ConnectionError
