"""Checks and quotes what goes into SQL by name: the schema, the notification channel, literals."""

from redrive.errors import StoreUnusableError

# PostgreSQL truncates names at 63 bytes, and the longest channel's name is five bytes longer than the schema's.
_MAX_SCHEMA_BYTES = 58


def checked_schema(schema: str) -> str:
    """Return the schema's name; StoreUnusableError when it cannot be used."""
    if not schema or "\x00" in schema or len(schema.encode()) > _MAX_SCHEMA_BYTES or schema.startswith("pg_"):
        raise StoreUnusableError(
            f"schema {schema!r} is not allowed; use 1 to {_MAX_SCHEMA_BYTES} bytes that do not begin with pg_"
        )
    if schema == "$user":
        raise StoreUnusableError(
            "schema '$user' is not allowed, since it means another schema for each user; use its name"
        )
    return schema


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def channel_of(schema: str) -> str:
    """Return the notification channel of a schema's store."""
    return f"{schema}_wake"


def end_channel_of(schema: str) -> str:
    """Return the notification channel on which a schema's store tells that flows have ended."""
    return f"{schema}_ends"


def literal(text: str) -> str:
    doubled = text.replace("'", "''")
    # Like PostgreSQL's quote_literal: E'' means the same whether or not plain strings have backslash escapes.
    return "E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in text else f"'{doubled}'"
