"""The libraries, each with one call that makes no retries of its own."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from tests.failures.known_errors.clients import CLIENTS
from tests.failures.known_errors.write_table import libraries
from tests.misbehaving.failures import PATIENCE, Played
from tests.misbehaving.library import Library, imported
from tests.misbehaving.sockets import FaultyServer, hang_up, refusing_port, reset, stall

_ON_SOCKETS = {"reset": reset, "closed": hang_up, "timeout": stall}
_NAMES = {
    "redis_asyncio": "redis (asyncio)",
    "redis_cluster": "redis (cluster)",
    "sqlalchemy": "sqlalchemy (psycopg)",
    "sqlalchemy_asyncio": "sqlalchemy (asyncpg)",
    "dns_resolver": "dnspython (resolver)",
    "dns_query": "dnspython (query)",
    "kafka": "kafka-python",
}


def ask_elasticsearch(url: str, timeout: float = PATIENCE) -> object:
    with imported("elasticsearch").Elasticsearch(url, request_timeout=timeout, max_retries=0) as client:
        return client.info()


def http_libraries() -> list[Library]:
    """Those that get statuses, and gRPC. Only what is installed: nothing here is built by hand."""
    installed = [library for library in libraries() if "by hand" not in library.name]
    elasticsearch = Library(name="elasticsearch", call=ask_elasticsearch, raises=("elasticsearch", "elastic_transport"))
    return sorted([*installed, elasticsearch], key=lambda library: library.name)


def socket_libraries() -> list[Library]:
    """Those with a protocol of their own."""
    names = sorted((_NAMES.get(name, name), name) for name in CLIENTS if name != "elasticsearch")
    return [
        Library(name=shown, call=_at_port(CLIENTS[name]), raises=(), server=_misbehaving_socket, without=("cut off",))
        for shown, name in names
    ]


def _at_port(call: Callable[[int], None]) -> Callable[[str, float], object]:
    return lambda address, timeout: call(int(address.rpartition(":")[2]))


@contextmanager
def _misbehaving_socket(how: str | Played) -> Iterator[str]:
    if how == "refused":
        with refusing_port() as port:
            yield f"127.0.0.1:{port}"
    else:
        assert isinstance(how, str)
        with closing(FaultyServer(_ON_SOCKETS[how])) as server:
            yield f"127.0.0.1:{server.port}"
