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


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(one) for one in text.split())


# Written out, because what `ipaddress` calls global differs between versions of Python and leaves some of these out.
_NOT_PUBLIC = _networks("""
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    168.63.129.16/32
    2001::/23 2001:db8::/32 2002::/16 3fff::/20
""")
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
"""All other IPv6 addresses are not public: loopback, local, multicast, NAT64, IPv4 in IPv6."""

# Where clouds tell a machine its credentials: AWS, Azure, Google and most others; containers on AWS; Alibaba; Azure;
# Oracle; Scaleway; then the same over IPv6: OpenStack, AWS, Google, Scaleway.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "169.254.42.42",
            "fe80::a9fe:a9fe",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
        ],
    )
)
# How many bits follow the IPv4 address that is inside: IPv4-compatible, mapped and translated, NAT64, 6to4.
_EMBEDDINGS = tuple(
    (ipaddress.IPv6Network(network), bits)
    for network, bits in (
        ("::/96", 0),
        ("::ffff:0:0/96", 0),
        ("::ffff:0:0:0/96", 0),
        ("64:ff9b::/96", 0),
        ("64:ff9b:1::/48", 0),
        ("2002::/16", 80),
    )
)


def is_public(address: Address) -> bool:
    """Whether the address is reachable from the public internet."""
    if address.is_multicast or address.is_reserved or address.is_unspecified or not address.is_global:
        return False
    if address.version == 6 and address not in _PUBLIC_IPV6:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


def is_metadata(address: Address) -> bool:
    """Whether a cloud tells its machines their credentials there; also in IPv6 forms of such an IPv4 address."""
    plain = ipaddress.ip_address(int(address)) if address.version == 4 else ipaddress.IPv6Address(int(address))
    if plain in _METADATA:
        return True
    return any(
        address in network and ipaddress.IPv4Address((int(address) >> bits) & 0xFFFF_FFFF) in _METADATA
        for network, bits in _EMBEDDINGS
    )


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
        any_address = self._allow_all or _plain_name(host) in self._names
        return next((text for text in addresses if not self._allows(text, any_address)), "")

    def _allows(self, text: str, any_address: bool) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return any_address
        if is_metadata(address):
            # Whoever can register a step must not get the machine's credentials because a network is allowed.
            return any(address in network and network.num_addresses == 1 for network in self._networks)
        if any_address or is_public(address):
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
