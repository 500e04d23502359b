"""Recognize addresses, hosts and origins of this machine."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback_address(host: str) -> bool:
    """Whether an address or a host name is reachable from this machine only."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_loopback_host(header: str) -> bool:
    """Whether a Host header, with or without a port, names this machine."""
    try:
        name = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    return name is not None and (is_loopback_address(name) or name.rstrip(".").endswith(".localhost"))


def is_own_origin(origin: str, host: str) -> bool:
    """Whether an Origin header names this server."""
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
