"""Which addresses may be called: public ones, and those that the settings allow."""

import ipaddress
import re
from collections.abc import Iterable

from redrive.failures.redaction import redact

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ALLOW_ALL = "private"
_HOST_NAME = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)

# Addresses that embed an IPv4 address, which may be private: 6to4, and the two prefixes of NAT64.
_TUNNELS = tuple(ipaddress.IPv6Network(one) for one in ("2002::/16", "64:ff9b::/96", "64:ff9b:1::/48"))


def is_public(address: Address) -> bool:
    """Whether the address is reachable from the public internet."""
    if address.is_multicast or address.is_reserved or address.is_unspecified or not address.is_global:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    return not (address.is_site_local or address.ipv4_mapped or any(address in tunnel for tunnel in _TUNNELS))


class AddressRules:
    """The rules of `HttpSettings.allow`."""

    def __init__(self, allow: Iterable[str]) -> None:
        self._allow_all = False
        self._names: set[str] = set()
        self._networks: list[Network] = []
        for entry in allow:
            if entry == ALLOW_ALL:
                self._allow_all = True
            elif (network := _network(entry)) is not None:
                self._networks.append(network)
            else:
                self._names.add(_plain_name(entry))

    def first_refused(self, host: str, addresses: Iterable[str]) -> str:
        """Return the first of the host's addresses that must not be called; an empty text if all may be."""
        if self._allow_all or _plain_name(host) in self._names:
            return ""
        return next((text for text in addresses if not self._allows(text)), "")

    def _allows(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        if is_public(address):
            return True
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any(one in network for one in (address, mapped) if one is not None for network in self._networks)


def is_numeric_host(host: str) -> bool:
    """Whether the host is an IP address, which is connected to without a lookup."""
    return ":" in host or host.replace(".", "").isdigit()


def check_allow_entry(entry: str) -> None:
    """Raise ValueError for an entry that is neither a network, an address nor a host name."""
    if entry == ALLOW_ALL or _network(entry) is not None:
        return
    if is_numeric_host(entry) or _HOST_NAME.fullmatch(_plain_name(entry)) is None:
        raise ValueError(
            f'allow: "{redact(entry, 80)}" is neither a network ("10.1.0.0/16"), an address ("127.0.0.1"), a host name '
            f'("svc.internal") nor "{ALLOW_ALL}"'
        )


def _network(entry: str) -> Network | None:
    try:
        return ipaddress.ip_network(entry)
    except ValueError:
        return None


def _plain_name(host: str) -> str:
    return host.lower().removesuffix(".")
