"""A store in the layout of a pre-release version is refused with one line, and stays as it is."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import pytest
from tests.postgres_server import shared_server

from redrive.cli import main
from redrive.errors import StoreUnusableError
from redrive.stores.interface import Store
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.sqlite.store import SqliteStore

LINE = (
    ": this store was written by a pre-release version of redrive, and this version cannot read it;"
    " finish its flows with the version that wrote it, or open a new store"
)
# What the first migration of these versions created, as far as it tells them apart.
OLD_TABLES = """
CREATE TABLE flows (
    id text PRIMARY KEY, definition text NOT NULL, status text NOT NULL,
    mail integer NOT NULL DEFAULT 0, mail_read integer NOT NULL DEFAULT 0
);
INSERT INTO flows (id, definition, status) VALUES ('a', 'workflow:Billing', 'waiting');
CREATE TABLE {versions} (version integer PRIMARY KEY, name text, applied_at {time});
INSERT INTO {versions} (version, name) VALUES (1, '0001_flows.sql');
"""


def old_sqlite_store(folder: Path) -> tuple[Store, str]:
    with closing(sqlite3.connect(folder / "app.db")) as database:
        database.executescript(OLD_TABLES.format(versions="redrive_schema", time="real"))
    return SqliteStore(str(folder / "app.db")), f"sqlite:///{folder}/app.db"


def old_postgres_store() -> tuple[Store, str]:
    url = shared_server().fresh_database()

    async def create() -> None:
        connection = await asyncpg.connect(url, server_settings={"search_path": "redrive"})
        await connection.execute("CREATE SCHEMA redrive")
        await connection.execute(OLD_TABLES.format(versions="migrations", time="timestamptz"))
        await connection.close()

    asyncio.run(create())
    return PostgresStore(url), url


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_store_in_the_old_layout_is_refused_with_what_to_do(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, address = old_sqlite_store(tmp_path) if kind == "sqlite" else old_postgres_store()

    async def open_and_close() -> None:
        try:
            await store.open()
        finally:
            await store.close()

    for _ in range(2):
        with pytest.raises(StoreUnusableError) as refusal:
            asyncio.run(open_and_close())
        assert str(refusal.value) == f"{store.address}{LINE}"
    assert main(["flows", "--store", address]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"redrive: {store.address}{LINE}\n")
