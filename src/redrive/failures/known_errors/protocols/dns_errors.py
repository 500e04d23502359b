"""Errors of dnspython."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, attribute, permanent, transient

_TIMEOUT = transient("the DNS servers did not answer in time; the next attempt may be faster")
_GARBLED = transient("the DNS answer was malformed or not meant for this query; the next may be whole")
_WRONG_NAME = permanent("validation: the name or the record cannot be read")
_MISUSE = permanent("DNS is used wrongly here: the same query fails again")

_SERVFAIL = 2


def _transfer(error: BaseException, _lookup: Lookup) -> Verdict:
    if attribute(error, "rcode") == _SERVFAIL:
        return transient("the DNS server failed during the zone transfer; it may recover")
    return permanent("the DNS server refuses the zone transfer")


DNS_ERRORS: Table = {
    "dns.exception.Timeout": _TIMEOUT,
    "dns.resolver.NoNameservers": transient("no DNS server answered the query: DNS failures are often short"),
    "dns.resolver.NXDOMAIN": permanent("missing data: the name does not exist in DNS"),
    "dns.resolver.NoAnswer": permanent("missing data: the name has no record of this type in DNS"),
    "dns.resolver.YXDOMAIN": permanent("the name in DNS is too long after DNAME substitution"),
    "dns.resolver.NoRootSOA": _GARBLED,
    "dns.resolver.NoMetaqueries": _MISUSE,
    "dns.resolver.NotAbsolute": _WRONG_NAME,
    "dns.resolver.NoResolverConfiguration": permanent("no DNS server is configured"),
    "dns.query.UnexpectedSource": _GARBLED,
    "dns.xfr.TransferError": _transfer,
    "dns.message.Truncated": permanent("the DNS answer does not fit into a datagram: ask over TCP"),
    "dns.exception.FormError": _GARBLED,
    "dns.name.NameTooLong": _WRONG_NAME,
    "dns.exception.SyntaxError": _WRONG_NAME,
}
