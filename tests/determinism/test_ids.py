"""Ids are random UUIDs, unless a test scripts them."""

import uuid

from redrive.determinism.ids import new_id, use_ids


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
