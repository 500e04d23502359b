"""The keys of the requests inside one guarded call."""

import asyncio
import threading
from contextvars import copy_context

import pytest

import redrive
from redrive.calls.idempotency_keys import IdempotencyKeys, current_keys
from redrive.testing import no_waits


@pytest.mark.promise("P10")
def test_a_request_finds_its_key_again_in_the_next_attempt() -> None:
    keys = IdempotencyKeys()
    first = [
        keys.key_for("POST", "/a"),
        keys.key_for("POST", "/a"),
        keys.key_for("PATCH", "/a"),
        keys.key_for("POST", "/b"),
    ]
    assert len(set(first)) == 4
    keys.next_attempt()
    assert keys.key_for("POST", "/b") == first[3]
    assert keys.key_for("POST", "/a") == first[0]
    keys.next_attempt()
    assert [keys.key_for("POST", "/a"), keys.key_for("POST", "/a")] == first[:2]
    assert keys.key_for("POST", "/a") not in first


@pytest.mark.promise("P10")
def test_requests_that_change_their_order_keep_their_keys() -> None:
    keys = IdempotencyKeys()
    first = {content: keys.key_for("POST", "/items", content) for content in "abc"}
    keys.next_attempt()
    assert {content: keys.key_for("POST", "/items", content) for content in "cab"} == first


@pytest.mark.promise("P10")
def test_a_request_whose_content_changes_keeps_its_key() -> None:
    keys = IdempotencyKeys()
    key = keys.key_for("POST", "/items", "sent at 10:00:00")
    keys.next_attempt()
    assert keys.key_for("POST", "/items", "sent at 10:00:01") == key


@pytest.mark.promise("P10")
@pytest.mark.parametrize("finished", [1, 2, 3])
def test_a_new_request_does_not_take_a_key_that_was_skipped_before_it(finished: int) -> None:
    keys = IdempotencyKeys()
    items = [f"item {number}" for number in range(finished + 3)]
    sent = {item: keys.key_for("POST", "/items", item) for item in items[: finished + 1]}
    keys.next_attempt()
    for item in items[finished:]:
        sent.setdefault(item, keys.key_for("POST", "/items", item))
    assert len(set(sent.values())) == len(items)


@pytest.mark.promise("P10")
def test_requests_whose_contents_all_change_keep_their_keys_by_their_turns() -> None:
    keys = IdempotencyKeys()
    first = [keys.key_for("POST", "/items", f"{item} at 10:00:00") for item in "ab"]
    keys.next_attempt()
    assert [keys.key_for("POST", "/items", f"{item} at 10:00:01") for item in "abc"][:2] == first


def test_there_are_no_keys_outside_of_a_call() -> None:
    assert current_keys() is None
    with no_waits():
        assert current_keys() is None


@pytest.mark.promise("P10", "P16")
def test_a_call_has_keys_of_its_own_and_keeps_them_through_its_attempts() -> None:
    seen: list[str] = []

    @redrive.retry(backoff=0, floor=0, jitter="none")
    def charge() -> None:
        keys = current_keys()
        assert keys is not None
        seen.append(keys.key_for("POST", "/charge"))
        raise ConnectionError

    for _ in range(2):
        with pytest.raises(ConnectionError):
            charge()
    assert seen[0] == seen[1] == seen[2]
    assert seen[3] == seen[4] == seen[5]
    assert seen[0] != seen[3]


@pytest.mark.promise("P10", "P16")
def test_an_inner_call_that_retries_by_itself_keeps_its_keys_through_the_outer_attempts() -> None:
    seen: list[str] = []

    @redrive.retry(independent=True, attempts=2)
    def charge() -> None:
        keys = current_keys()
        assert keys is not None
        seen.append(keys.key_for("POST", "/charge"))
        raise ConnectionError

    @redrive.retry
    async def outer() -> None:
        charge()

    with no_waits(), pytest.raises(ConnectionError):
        asyncio.run(outer())
    assert len(seen) == 6
    assert len(set(seen)) == 1


@pytest.mark.promise("P10")
@pytest.mark.parametrize("round_", range(50))
def test_threads_of_one_attempt_get_different_keys_and_the_same_ones_again(round_: int) -> None:
    rounds: list[set[str]] = []

    @redrive.retry
    def outer() -> None:
        got: list[str] = []

        def request() -> None:
            keys = current_keys()
            assert keys is not None
            got.append(keys.key_for("POST", "/items"))

        threads = [threading.Thread(target=copy_context().run, args=(request,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(got)) == len(got) == 8
        rounds.append(set(got))
        raise ConnectionError

    with no_waits(), pytest.raises(ConnectionError):
        outer()
    assert rounds[0] == rounds[1] == rounds[2]
