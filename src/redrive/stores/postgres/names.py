"""The names a store goes by: its address for people, its schema and the channel that its wake-ups come through."""

from urllib.parse import parse_qs, urlsplit

from redrive.errors import StoreUnusableError

# PostgreSQL cuts names off at 63 bytes; the channel has five more than the schema.
_LONGEST_SCHEMA = 58


def public_address(url: str) -> str:
    """Where it is, without password; refuses what is not an address of PostgreSQL."""
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2].lower()
        for host in hosts.split(","):
            # Asked for, since it is only looked at then.
            _ = urlsplit(f"//{host}").port
    except ValueError:
        # Not what it says: it quotes what stands where a host or a port should, and that may be of a password.
        raise StoreUnusableError(
            f"the PostgreSQL address cannot be read (its host or port is none); {_EXAMPLE}"
        ) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise StoreUnusableError(f"{parts.scheme or 'nothing'}:// is not an address of PostgreSQL; {_EXAMPLE}")
    # What is not a setting: with an @ in it, the host is further on, and what stands before it is a password.
    beyond = (parts.path, *(field for field in parts.query.split("&") if "=" not in field), parts.fragment)
    if any("@" in part for part in beyond):
        raise StoreUnusableError(f"the PostgreSQL address cannot be read (an @ behind its host); {_EXAMPLE}")
    hosts = hosts or parse_qs(parts.query).get("host", [""])[0]
    user = f"{parts.username}@" if parts.username else ""
    return f"postgresql://{user}{hosts}{parts.path}"


_EXAMPLE = "write postgresql://user@host:5432/database, and / ? # @ in a password or a name as %2F %3F %23 %40"


def checked_schema(schema: str) -> str:
    if not schema or "\x00" in schema or len(schema.encode()) > _LONGEST_SCHEMA or schema.startswith("pg_"):
        raise StoreUnusableError(
            f"schema {schema!r} cannot be used; write 1 to {_LONGEST_SCHEMA} bytes that do not begin with pg_"
        )
    if schema == "$user":
        raise StoreUnusableError("schema '$user' cannot be used: it would be another for each user; write its name")
    return schema


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def channel_of(schema: str) -> str:
    """What workers listen to; each schema has its own."""
    return f"{schema}_wake"


def literal(text: str) -> str:
    doubled = text.replace("'", "''")
    # Written as PostgreSQL itself does: this means the same whether or not backslashes are escapes in a plain one.
    return "E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in text else f"'{doubled}'"
