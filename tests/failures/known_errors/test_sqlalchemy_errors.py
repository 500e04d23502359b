"""Errors of SQLAlchemy over SQLite: its own, and those of the driver beneath."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import exc, orm
from tests.failures.asking import error_of, look_alike, verdict_of


class Base(orm.DeclarativeBase):
    """The tables of these tests."""


class Account(Base):
    __tablename__ = "account"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    balance: orm.Mapped[int]
    version: orm.Mapped[int] = orm.mapped_column()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012 - how SQLAlchemy is told


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(
        f"sqlite:///{tmp_path}/accounts.db", pool_size=2, max_overflow=0, pool_timeout=0.05, connect_args={"timeout": 0}
    )
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add(Account(id=1, balance=100))
        session.commit()
    yield engine
    engine.dispose()


@pytest.mark.promise("L2")
def test_a_row_that_another_transaction_changed(engine: sqlalchemy.Engine) -> None:
    """StaleDataError is an optimistic-lock conflict: reading again makes the next attempt a different one."""
    with orm.Session(engine) as session:
        account = session.get_one(Account, 1)
        session.commit()
        with engine.begin() as other:
            other.execute(sqlalchemy.text("UPDATE account SET version = 7"))
        # What the session knows is from before the change.
        orm.attributes.set_committed_value(account, "version", 1)
        account.balance = 50
        error = error_of(session.commit)
    assert isinstance(error, orm.exc.StaleDataError)
    verdict = verdict_of(error)
    assert verdict.category == "transient"
    assert "read it again" in verdict.reason


@pytest.mark.promise("L2")
def test_a_pool_without_a_free_connection(engine: sqlalchemy.Engine) -> None:
    with engine.connect(), engine.connect():
        error = error_of(engine.connect)
    assert isinstance(error, sqlalchemy.exc.TimeoutError)
    assert (verdict_of(error).category, verdict_of(error).not_sent) == ("transient", True)


@pytest.mark.promise("L2")
def test_a_database_that_is_locked(engine: sqlalchemy.Engine) -> None:
    with engine.connect() as first, engine.connect() as second:
        first.exec_driver_sql("BEGIN IMMEDIATE")
        error = error_of(lambda: second.exec_driver_sql("UPDATE account SET balance = 0"))
    assert isinstance(error, sqlalchemy.exc.OperationalError)
    assert "lock contention" in verdict_of(error).reason


@pytest.mark.promise("P2")
@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM missing", "INSERT INTO account VALUES (1, 1, 1)", "INSERT INTO account VALUES (2, NULL, 1)"],
)
def test_statements_that_cannot_succeed(statement: str, engine: sqlalchemy.Engine) -> None:
    with engine.connect() as connection:
        error = error_of(lambda: connection.exec_driver_sql(statement))
    assert verdict_of(error).category == "permanent"


@pytest.mark.promise("P2")
def test_misuse_and_missing_rows(engine: sqlalchemy.Engine) -> None:
    with orm.Session(engine) as session:
        missing = error_of(lambda: session.get_one(Account, 2))
    with engine.connect() as connection:
        unbound = error_of(lambda: connection.execute(sqlalchemy.text("SELECT :x")))
    assert verdict_of(missing).reason.startswith("missing data")
    assert verdict_of(unbound).category == "permanent"


@pytest.mark.promise("L2")
def test_a_driver_that_is_not_known() -> None:
    """Built by hand: the driver of a database that is not here."""
    driver = look_alike("some.driver.Error")
    broken = sqlalchemy.exc.OperationalError("SELECT 1", {}, driver, connection_invalidated=True)
    assert verdict_of(broken).category == "transient"
    for kind in (exc.IntegrityError, exc.DataError, exc.ProgrammingError, exc.NotSupportedError):
        assert verdict_of(kind("SELECT 1", {}, driver)).category == "permanent"
    assert verdict_of(sqlalchemy.exc.DisconnectionError("gone")).category == "transient"
