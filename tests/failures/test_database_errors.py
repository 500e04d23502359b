"""Errors of SQLite, PostgreSQL drivers and SQLAlchemy."""

import asyncio
import sqlite3
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import psycopg
import pytest

from redrive.failures.failure import Category
from redrive.failures.known_errors.databases.sqlstates import sqlstate_verdict
from redrive.failures.known_errors.lookup import known_verdict

from .asking import error_of, look_alike, verdict_of


class TestSQLite:
    @pytest.mark.promise("P1")
    def test_a_real_lock_held_by_another_connection(self, tmp_path: Path) -> None:
        first = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        second = sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0)
        try:
            first.execute("create table t (x integer primary key)")
            first.execute("begin immediate")
            error = error_of(lambda: second.execute("begin immediate"))
        finally:
            first.close()
            second.close()
        assert isinstance(error, sqlite3.OperationalError)
        verdict = verdict_of(error)
        assert verdict.category == "transient"
        assert "lock contention" in verdict.reason

    @pytest.mark.promise("P2")
    @pytest.mark.parametrize(
        "statement",
        ["select * from missing", "not sql at all", "insert into t values (1)", "insert into t values ('x')"],
    )
    def test_statements_that_cannot_succeed(self, statement: str) -> None:
        database = sqlite3.connect(":memory:")
        try:
            database.execute("create table t (x integer primary key check (typeof(x) = 'integer'))")
            database.execute("insert into t values (1)")
            error = error_of(lambda: database.execute(statement))
        finally:
            database.close()
        assert isinstance(error, sqlite3.Error)
        assert verdict_of(error).category == "permanent"

    def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "a.db").write_text("this is not a database" * 100)
        database = sqlite3.connect(tmp_path / "a.db")
        try:
            assert verdict_of(error_of(lambda: database.execute("select * from t"))).category == "permanent"
        finally:
            database.close()

    def test_a_database_that_is_closed(self) -> None:
        database = sqlite3.connect(":memory:")
        database.close()
        assert verdict_of(error_of(lambda: database.execute("select 1"))).category == "permanent"

    @pytest.mark.parametrize(
        ("text", "category"),
        [
            ("database is locked", "transient"),
            ("database table is locked: t", "transient"),
            ("no such table: t", "permanent"),
        ],
    )
    def test_the_text_where_there_is_no_code(self, text: str, category: Category) -> None:
        assert verdict_of(sqlite3.OperationalError(text)).category == category

    def test_refined_codes_count_as_what_they_refine(self) -> None:
        error = sqlite3.OperationalError("database is busy")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY_SNAPSHOT
        assert verdict_of(error).category == "transient"

    @pytest.mark.promise("P4")
    def test_a_full_disk_says_neither(self) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        error.sqlite_errorname = "SQLITE_FULL"
        assert verdict_of(error).category == "unknown"
        assert known_verdict(sqlite3.OperationalError("database or disk is full")) is None


class TestPostgres:
    @pytest.mark.promise("P1")
    @pytest.mark.parametrize(
        "error",
        [
            asyncpg.SerializationError("x"),
            asyncpg.DeadlockDetectedError("x"),
            asyncpg.LockNotAvailableError("x"),
            asyncpg.AdminShutdownError("x"),
            asyncpg.CrashShutdownError("x"),
            asyncpg.CannotConnectNowError("x"),
            asyncpg.ConnectionDoesNotExistError("x"),
            asyncpg.TooManyConnectionsError("x"),
            asyncpg.InterfaceError("connection is closed"),
            psycopg.errors.SerializationFailure("x"),
            psycopg.errors.DeadlockDetected("x"),
            psycopg.errors.LockNotAvailable("x"),
            psycopg.errors.AdminShutdown("x"),
            psycopg.errors.TooManyConnections("x"),
            psycopg.errors.ConnectionFailure("x"),
            psycopg.OperationalError("server closed the connection unexpectedly"),
            psycopg.errors.ConnectionTimeout("connection timeout expired"),
        ],
    )
    def test_conflicts_and_lost_connections_pass(self, error: Exception) -> None:
        assert verdict_of(error).category == "transient"

    @pytest.mark.promise("P2")
    @pytest.mark.parametrize(
        "error",
        [
            asyncpg.UniqueViolationError("x"),
            asyncpg.UndefinedTableError("x"),
            asyncpg.InvalidPasswordError("x"),
            asyncpg.DataError("x"),
            asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
            psycopg.errors.UniqueViolation("x"),
            psycopg.errors.UndefinedColumn("x"),
            psycopg.errors.InvalidTextRepresentation("x"),
            psycopg.errors.InvalidPassword("x"),
            psycopg.ProgrammingError("the query has 1 placeholder but 0 parameters were passed"),
            psycopg.IntegrityError("x"),
            psycopg.OperationalError('connection failed: FATAL: password authentication failed for user "bob"'),
        ],
    )
    def test_data_schema_and_login_stay(self, error: Exception) -> None:
        assert verdict_of(error).category == "permanent"

    def test_the_reason_names_the_state(self) -> None:
        assert verdict_of(asyncpg.SerializationError("x")).reason.startswith("40001: ")
        assert verdict_of(psycopg.errors.UniqueViolation("x")).reason.startswith("23505: ")

    @pytest.mark.promise("P1")
    def test_a_real_server_that_is_not_there(self, closed_port: int) -> None:
        by_psycopg = error_of(lambda: psycopg.connect(f"host=127.0.0.1 port={closed_port} user=x connect_timeout=5"))
        assert isinstance(by_psycopg, psycopg.OperationalError)
        assert verdict_of(by_psycopg).category == "transient"
        by_asyncpg = error_of(
            lambda: asyncio.run(asyncpg.connect(host="127.0.0.1", port=closed_port, user="x", database="x", timeout=5))
        )
        assert (verdict_of(by_asyncpg).category, verdict_of(by_asyncpg).not_sent) == ("transient", True)

    def test_a_cancelled_statement_passes_only_if_a_timeout_did_it(self) -> None:
        assert (
            verdict_of(asyncpg.QueryCanceledError("canceling statement due to statement timeout")).category
            == "transient"
        )
        assert verdict_of(asyncpg.QueryCanceledError("canceling statement due to user request")).category == "unknown"

    @pytest.mark.parametrize(
        ("state", "category"),
        [
            ("08006", "transient"),
            ("53300", "transient"),
            ("57P04", "permanent"),
            ("22003", "permanent"),
            ("28P01", "permanent"),
        ],
    )
    def test_classes_of_states(self, state: str, category: Category) -> None:
        verdict = sqlstate_verdict(state)
        assert verdict is not None
        assert verdict.category == category

    @pytest.mark.promise("P4")
    @pytest.mark.parametrize("state", ["XX000", "58030", "P0001", "HY000"])
    def test_states_that_say_neither(self, state: str) -> None:
        assert sqlstate_verdict(state) is None

    def test_psycopg2_says_it_in_pgcode(self) -> None:
        base = look_alike("psycopg2.Error")
        operational = look_alike("psycopg2.OperationalError", (type(base),), pgcode="40P01")
        assert verdict_of(operational).reason.startswith("40P01: ")
        lost = look_alike("psycopg2.OperationalError", (type(base),), pgcode=None)
        assert verdict_of(lost).category == "transient"
        broken = look_alike("psycopg2.InterfaceError", (type(base),), __str__=lambda self: "connection already closed")
        assert verdict_of(broken).category == "transient"

    def test_sqlalchemy_wraps_the_drivers_error(self) -> None:
        def wrapped(orig: BaseException, **attributes: object) -> Exception:
            statement = look_alike("sqlalchemy.exc.StatementError")
            return look_alike("sqlalchemy.exc.DBAPIError", (type(statement),), orig=orig, **attributes)

        assert verdict_of(wrapped(psycopg.errors.SerializationFailure("x"))).category == "transient"
        assert verdict_of(wrapped(sqlite3.IntegrityError("x"))).category == "permanent"
        assert known_verdict(wrapped(RuntimeError("x"))) is None
        assert verdict_of(wrapped(RuntimeError("x"), connection_invalidated=True)).category == "transient"
        adapted = look_alike("sqlalchemy.dialects.postgresql.asyncpg.Error")
        adapted.__cause__ = asyncpg.DeadlockDetectedError("x")
        assert verdict_of(wrapped(adapted)).reason.startswith("40P01: ")
