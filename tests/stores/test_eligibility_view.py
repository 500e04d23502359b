"""The view `retry_eligibility` says in SQL what the function says in Python, on both databases."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.policies.eligibility_boundaries import BOUNDARIES
from tests.stores.postgres_scene import fresh_schema, shared_database

from redrive.stores.interface import Store
from redrive.stores.leases import NewWorker
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import Batch, RetryQuery, RetryRow
from redrive.stores.row_eligibility import attempts_of, eligibility_of, max_attempts_of
from redrive.stores.sqlite.store import SqliteStore

HOUR = 3600.0
LARGEST = 2**63 - 1
COLUMNS = (
    *("flow_id", "item", "step", "queue", "status", "attempts", "max_attempts", "retryable", "retry_eligible"),
    *("next_retry_at", "dependencies_satisfied", "ready", "reason"),
)
Ask = Callable[[str], list[dict[str, Any]]]


class Answer(NamedTuple):
    attempts: int
    max_attempts: int | None
    retryable: bool
    retry_eligible: bool
    next_retry_at: float | None
    dependencies_satisfied: bool
    ready: bool
    reason: str


class Scene:
    """A store, and a connection past it."""

    def __init__(self, runner: asyncio.Runner, store: Store, ask: Ask) -> None:
        self.run = runner.run
        self.store = store
        self.ask = ask
        self._lease = runner.run(store.acquire_lease(NewWorker(name="host:1", definitions=()), HOUR))
        self._batches = 0

    def write(self, rows: Sequence[RetryRow]) -> None:
        """In place of what was there before."""
        self.ask("DELETE FROM retry_queue")
        self._batches += 1
        self.run(self.store.commit(self._lease, Batch(number=self._batches, retries=list(rows))))

    def by_item(self) -> dict[int, Answer]:
        rows = self.ask("SELECT * FROM retry_eligibility")
        return {row["item"]: Answer(*(_plain(name, row[name]) for name in Answer._fields)) for row in rows}

    def stored(self) -> list[RetryRow]:
        return self.run(self.store.list_retries(RetryQuery(limit=1000)))


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return bool(value) if Answer.__annotations__[name] is bool else value


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with asyncio.Runner() as runner:
        store, ask, close = (
            _sqlite(runner, tmp_path_factory.mktemp("view")) if request.param == "sqlite" else _postgres(runner)
        )
        try:
            yield Scene(runner, store, ask)
        finally:
            close()
            runner.run(store.close())


def _sqlite(runner: asyncio.Runner, folder: Path) -> tuple[Store, Ask, Callable[[], None]]:
    store = SqliteStore(str(folder / "app.db"))
    runner.run(store.open())
    connection = sqlite3.connect(folder / "app.db", isolation_level=None)
    connection.row_factory = sqlite3.Row
    return store, lambda statement: [dict(row) for row in connection.execute(statement)], connection.close


def _postgres(runner: asyncio.Runner) -> tuple[Store, Ask, Callable[[], None]]:
    url, schema = shared_database(), fresh_schema()
    store = PostgresStore(url, schema)
    runner.run(store.open())
    connection = psycopg.connect(url, autocommit=True, options=f"-c search_path={schema} -c timezone=Asia/Tokyo")

    def ask(statement: str) -> list[dict[str, Any]]:
        with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    return store, ask, connection.close


def retry(item: int, **fields: Any) -> RetryRow:
    given: dict[str, Any] = {
        "flow_id": "a",
        "item": item,
        "step": "charge",
        "queue": "default",
        "status": "waiting",
        "attempt_number": 1,
        "max_retries": 2,
        "timeout_seconds": None,
        "timeout_retry_limit": None,
        "backoff_kind": "constant",
        "backoff_base_delay_ms": 5.0,
        "retry_kind": "exception",
        "scheduled_at": 1.0,
    }
    return RetryRow(**given | fields)


@pytest.mark.promise("T2", "T4", "T6")
@pytest.mark.parametrize("name", BOUNDARIES)
def test_the_boundaries_of_attempts(scene: Scene, name: str) -> None:
    cases = BOUNDARIES[name]
    scene.write(
        [
            retry(
                item,
                attempt_number=case.attempts,
                max_retries=None if case.max_attempts is None else case.max_attempts - 1,
                retryable=case.retryable,
            )
            for item, case in enumerate(cases)
        ]
    )
    answers = scene.by_item()
    for item, case in enumerate(cases):
        answer = answers[item]
        assert (answer.attempts, answer.max_attempts, answer.retryable) == case[:3]
        assert (answer.retry_eligible, answer.ready) == (case.eligible, case.eligible)


def test_the_view_shows_all_that_it_goes_by(scene: Scene) -> None:
    later = time.time() + HOUR
    scene.write([retry(1, scheduled_at=later, attempt_number=2, max_retries=4)])
    (row,) = scene.ask("SELECT * FROM retry_eligibility")
    assert tuple(row) == COLUMNS
    (answer,) = scene.by_item().values()
    assert answer.next_retry_at == pytest.approx(later, abs=1e-5, rel=0)
    assert answer._replace(next_retry_at=None) == (2, 5, True, True, None, True, False, "waits for its time")


def test_an_attempt_under_way_counts_and_is_not_ready_for_another(scene: Scene) -> None:
    scene.write([retry(1, status="dispatched"), retry(2, status="dispatched", attempt_number=2)])
    answers = scene.by_item()
    assert answers[1] == (2, 3, True, True, None, True, False, "an attempt is under way")
    assert answers[2] == (3, 3, True, False, None, True, False, "an attempt is under way")


ROWS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["waiting", "waiting", "dispatched"]),
        "attempt_number": st.integers(0, 4) | st.sampled_from([2**31, 2**62]),
        "max_retries": st.none() | st.integers(0, 4) | st.sampled_from([2**31, 2**62]),
        "retryable": st.booleans(),
        "dependencies_satisfied": st.booleans(),
        # Well away from now: the two do not read the clock at the same moment.
        "scheduled_at": st.floats(HOUR, 1e9) | st.floats(-1e9, -HOUR),
    }
)
ODD = st.sampled_from([-1, -2, -(2**40), LARGEST])


@pytest.mark.promise("T4")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROWS, min_size=1, max_size=40), odd=st.dictionaries(st.integers(0, 39), ODD, max_size=4))
@example(rows=[{"attempt_number": 0, "scheduled_at": -HOUR}, {"scheduled_at": -HOUR}], odd={0: -1, 1: -1})
@example(rows=[{"scheduled_at": -HOUR}], odd={0: LARGEST})
def test_python_and_sql_give_the_same_answer(scene: Scene, rows: list[dict[str, Any]], odd: dict[int, int]) -> None:
    now = time.time()
    scene.write([retry(item, **row | {"scheduled_at": now + row["scheduled_at"]}) for item, row in enumerate(rows)])
    for item, max_retries in odd.items():
        scene.ask(f"UPDATE retry_queue SET max_retries = {max_retries} WHERE item = {item}")  # noqa: S608 - our own numbers
    stored = scene.stored()
    assert len(stored) == len(rows)
    answers = scene.by_item()
    for row in stored:
        in_python = Answer(
            attempts_of(row),
            max_attempts_of(row),
            row.retryable,
            next_retry_at=row.scheduled_at if row.status == "waiting" else None,
            dependencies_satisfied=row.dependencies_satisfied,
            **msgspec.structs.asdict(eligibility_of(row, now)),
        )
        in_sql = answers[row.item]
        if row.max_retries == LARGEST:
            # One more is more than a column holds.
            assert in_sql.max_attempts == LARGEST
            in_python = in_python._replace(max_attempts=LARGEST)
        assert in_sql._replace(next_retry_at=None) == in_python._replace(next_retry_at=None)
        assert _microseconds(in_sql.next_retry_at) == _microseconds(in_python.next_retry_at)


def _microseconds(at: float | None) -> int | None:
    return None if at is None else round(at * 1e6)
