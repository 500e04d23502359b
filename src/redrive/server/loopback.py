"""Which names mean this machine."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback_address(host: str) -> bool:
    """True for an address, or a name, that nobody else can reach."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_loopback_host(header: str) -> bool:
    """Of a Host header: a name with or without a port."""
    try:
        name = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    return name is not None and (is_loopback_address(name) or name.rstrip(".").endswith(".localhost"))


def is_own_origin(origin: str, host: str) -> bool:
    """True when a page of this very server asks."""
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
