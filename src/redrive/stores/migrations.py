"""Schema migrations: numbered .sql files beside each driver, applied in order and never changed once released."""

from importlib import resources
from typing import NamedTuple

from redrive.errors import StoreTooNewError

PRE_RELEASE_COLUMN = "mail"
"""A column of `flows` in the stores of pre-release versions, which this version refuses."""


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


def load_migrations(package: str) -> list[Migration]:
    """Return the migrations in the package's folder `migrations`: `0001_create_tables.sql` and so on."""
    folder = resources.files(package) / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [Migration(int(file.name[:4]), file.name, file.read_text(encoding="utf-8")) for file in files]


def pending(migrations: list[Migration], version: int, where: str) -> list[Migration]:
    """Return the migrations that a schema of `version` lacks; refuse a schema from a newer redrive."""
    newest = migrations[-1].version
    if version > newest:
        raise StoreTooNewError(
            f"{where}: its schema has version {version}, and this redrive supports versions up to {newest};"
            " upgrade redrive, or use another store"
        )
    return [migration for migration in migrations if migration.version > version]
