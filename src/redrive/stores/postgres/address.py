"""Shows the address of a PostgreSQL server without its password."""

from urllib.parse import parse_qs, urlsplit

from redrive.errors import StoreUnusableError


def public_address(url: str) -> str:
    """Return the address without the password; StoreUnusableError when it is not an address of PostgreSQL."""
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2].lower()
        for host in hosts.split(","):
            # Reading the port parses it.
            _ = urlsplit(f"//{host}").port
    except ValueError:
        # The error quotes the host or the port, which may be part of a password, so it is not shown.
        raise StoreUnusableError(f"the PostgreSQL address has an invalid host or port; {_EXAMPLE}") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise StoreUnusableError(f"{parts.scheme or 'nothing'}:// is not an address of PostgreSQL; {_EXAMPLE}")
    # An @ outside the settings means that the host comes later, and that a password precedes it.
    beyond = (parts.path, *(field for field in parts.query.split("&") if "=" not in field), parts.fragment)
    if any("@" in part for part in beyond):
        raise StoreUnusableError(f"the PostgreSQL address has an @ after its host; {_EXAMPLE}")
    hosts = hosts or parse_qs(parts.query).get("host", [""])[0]
    user = f"{parts.username}@" if parts.username else ""
    return f"postgresql://{user}{hosts}{parts.path}"


_EXAMPLE = "write postgresql://user@host:5432/database, and / ? # @ in a password or a name as %2F %3F %23 %40"
