"""Ids are random UUIDs, unless a test scripts them."""

import uuid

from redrive.determinism.ids import new_id, ordered_id, random_token, use_ids


def test_ids_are_random_uuids() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    for one in ids:
        parsed = uuid.UUID(one)
        assert (str(parsed), parsed.version, parsed.variant) == (one, 4, uuid.RFC_4122)


def test_ids_can_be_scripted() -> None:
    with use_ids(iter(["a", "b"]).__next__):
        assert [new_id(), new_id()] == ["a", "b"]
    assert new_id() not in ("a", "b")


def test_ordered_ids_sort_by_the_time_they_were_made_and_are_uuids() -> None:
    ids = [ordered_id(1_700_000_000 + second) for second in range(100)]
    assert ids == sorted(ids)
    assert {uuid.UUID(one).version for one in ids} == {7}
    assert len({ordered_id(5.0) for _ in range(1000)}) == 1000


def test_tokens_are_unguessable_and_never_given_twice() -> None:
    tokens = {random_token() for _ in range(2000)}
    assert len(tokens) == 2000
    assert all(len(bytes.fromhex(token)) == 16 for token in tokens)
