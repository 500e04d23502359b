"""One retry owner for urllib3 and requests: a pool, or a session whose adapters were given a `Retry`.

http = owned(urllib3.PoolManager())
session = owned(requests.Session())

To retry in the session itself, and not in a guarded call around it, see redrive.integrations.requests.
"""

from typing import Any, TypeVar, cast

try:
    from urllib3.util import Retry
except ImportError as error:
    raise ImportError("this is for urllib3 and requests, and urllib3 is not installed: pip install urllib3") from error

from redrive.integrations.sdk_clients.client_types import derives_from, refuse

__all__ = ["owned"]

C = TypeVar("C")


def owned(client: C) -> C:
    """Switch off the retries of a PoolManager, a connection pool, a requests Session or its HTTPAdapter; return it.

    Redirects are followed as before, and a status in `status_forcelist` is still raised. A `retries=` that is passed
    to a single request still applies.
    """
    pool = cast("Any", client)
    if derives_from(client, "urllib3.poolmanager.PoolManager"):
        # Connection pools that are open already are not used again: they are looked up by this setting.
        pool.connection_pool_kw["retries"] = _without_retries(pool.connection_pool_kw.get("retries"))
    elif derives_from(client, "urllib3.connectionpool.HTTPConnectionPool"):
        pool.retries = _without_retries(pool.retries)
    elif derives_from(client, "requests.sessions.Session"):
        for adapter in pool.adapters.values():
            if derives_from(adapter, "requests.adapters.HTTPAdapter"):
                owned(adapter)
    elif derives_from(client, "requests.adapters.HTTPAdapter"):
        pool.max_retries = _without_retries(pool.max_retries)
    else:
        raise refuse(client, "urllib3", "a PoolManager, a connection pool, a requests Session or an HTTPAdapter")
    return client


def _without_retries(retries: Any) -> Any:
    """Return the setting without its retries, but with its redirects."""
    if retries is False:
        return False
    if not isinstance(retries, Retry):
        retries = Retry.from_int(retries, default=Retry.DEFAULT)
    return retries.new(
        total=None,
        connect=0,
        # False raises what urllib3 itself raised, and 0 the error of the last retry around it.
        read=False if retries.read is False else 0,
        status=0,
        other=0,
        redirect=retries.total if retries.redirect is None else retries.redirect,
    )
