"""Schemas grow by numbered .sql files, applied in order and never changed afterwards."""

from importlib import resources
from typing import NamedTuple

from redrive.errors import StoreTooNewError


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


def migrations_of(package: str) -> list[Migration]:
    """Those in the package's folder `migrations`: `0001_what_it_does.sql` and so on."""
    folder = resources.files(package) / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [Migration(int(file.name[:4]), file.name, file.read_text(encoding="utf-8")) for file in files]


def still_to_apply(migrations: list[Migration], version: int, where: str) -> list[Migration]:
    """What brings a schema from `version` up to date; a schema from a newer redrive is refused."""
    newest = migrations[-1].version
    if version > newest:
        raise StoreTooNewError(
            f"{where}: its schema has version {version}, and this redrive knows up to {newest};"
            " upgrade redrive, or use another store"
        )
    return [migration for migration in migrations if migration.version > version]
