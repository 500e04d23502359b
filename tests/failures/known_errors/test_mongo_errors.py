"""Errors of pymongo, from a server that answers as a real one does."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import dns.resolver
import pymongo
import pytest
from pymongo import errors
from pymongo.server_api import ServerApi
from tests.failures.asking import error_of, verdict_of
from tests.misbehaving.sockets import hang_up, reset, stall

from redrive.failures.known_errors.lookup import known_verdict

from .conftest import ServeFault
from .fake_mongo import Reply, fake_mongo

Client = pymongo.MongoClient[dict[str, Any]]
Connect = Callable[..., Client]


@pytest.fixture
def connect(serve: ServeFault) -> Iterator[Connect]:
    """A client of a server that gives these replies."""
    with contextlib.ExitStack() as clients:

        def start(replies: dict[str, Reply], **options: Any) -> Client:
            port = serve(fake_mongo(replies))
            client = Client(
                "127.0.0.1",
                port,
                server_api=ServerApi("1"),
                replicaSet="rs",
                retryReads=False,
                retryWrites=False,
                serverSelectionTimeoutMS=3000,
                **options,
            )
            return clients.enter_context(client)

        yield start


def refused(code: int, name: str, **fields: Any) -> Reply:
    return {"ok": 0, "code": code, "codeName": name, "errmsg": name, **fields}


def rejected(*codes: int) -> Reply:
    write_errors = [{"index": 0, "code": code, "errmsg": "rejected"} for code in codes]
    return {"ok": 1, "n": 0, "writeErrors": write_errors}


def unconfirmed(code: int, **info: Any) -> Reply:
    return {"ok": 1, "n": 1, "writeConcernError": {"code": code, "errmsg": "not confirmed", "errInfo": info}}


def find(client: Client) -> object:
    return client["database"]["collection"].find_one()


def insert(client: Client) -> object:
    return client["database"]["collection"].insert_one({"_id": 1})


@pytest.mark.promise("L2")
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refused(50, "MaxTimeMSExpired"), errors.ExecutionTimeout),
        (refused(10107, "NotWritablePrimary"), errors.NotPrimaryError),
        (refused(11600, "InterruptedAtShutdown"), errors.NotPrimaryError),
        (refused(43, "CursorNotFound"), errors.CursorNotFound),
        (refused(112, "WriteConflict", errorLabels=["TransientTransactionError"]), errors.OperationFailure),
        (refused(99999, "SomethingNew", errorLabels=["RetryableWriteError"]), errors.OperationFailure),
        (refused(262, "ExceededTimeLimit"), errors.OperationFailure),
        (refused(6, "HostUnreachable"), errors.OperationFailure),
    ],
)
def test_answers_that_are_temporary(reply: Reply, kind: type[Exception], connect: Connect) -> None:
    client = connect({"find": reply})
    error = error_of(lambda: find(client))
    assert type(error) is kind
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("P2")
@pytest.mark.parametrize(
    "reply",
    [refused(13, "Unauthorized"), refused(18, "AuthenticationFailed"), refused(2, "BadValue"), refused(59, "NotFound")],
)
def test_answers_that_stay(reply: Reply, connect: Connect) -> None:
    client = connect({"find": reply})
    assert verdict_of(error_of(lambda: find(client))).category == "permanent"


@pytest.mark.promise("P4")
def test_answers_that_say_neither(connect: Connect) -> None:
    client = connect({"find": refused(99999, "SomethingNew")})
    assert known_verdict(error_of(lambda: find(client))) is None


@pytest.mark.promise("L2")
@pytest.mark.parametrize("fault", [hang_up, reset, stall], ids=lambda fault: fault.__name__)
def test_a_server_that_breaks_off_in_the_middle(fault: Reply, connect: Connect) -> None:
    client = connect({"insert": fault}, socketTimeoutMS=200)
    error = error_of(lambda: insert(client))
    assert isinstance(error, errors.NetworkTimeout if fault is stall else errors.AutoReconnect)
    # The document may be there already.
    assert (verdict_of(error).category, verdict_of(error).not_sent) == ("transient", False)


@pytest.mark.promise("P2")
def test_a_key_that_is_there_already(connect: Connect) -> None:
    client = connect({"insert": rejected(11000)})
    error = error_of(lambda: insert(client))
    assert isinstance(error, errors.DuplicateKeyError)
    assert verdict_of(error).category == "permanent"


@pytest.mark.promise("L2")
@pytest.mark.parametrize("reply", [unconfirmed(64, wtimeout=True), unconfirmed(91)])
def test_a_write_that_too_few_replicas_confirmed(reply: Reply, connect: Connect) -> None:
    client = connect({"insert": reply})
    error = error_of(lambda: insert(client))
    assert isinstance(error, errors.PyMongoError)
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("P2")
def test_a_write_concern_that_cannot_be_met(connect: Connect) -> None:
    client = connect({"insert": unconfirmed(100)})
    assert verdict_of(error_of(lambda: insert(client))).category == "permanent"


@pytest.mark.parametrize(
    ("reply", "category"),
    [
        (rejected(11000), "permanent"),
        (rejected(112, 11000), "permanent"),
        (rejected(112), "transient"),
        (unconfirmed(64), "transient"),
    ],
)
def test_a_bulk_write_goes_by_its_writes(reply: Reply, category: str, connect: Connect) -> None:
    client = connect({"insert": reply})
    error = error_of(lambda: client["database"]["collection"].bulk_write([pymongo.InsertOne({"_id": 1})]))
    assert isinstance(error, errors.BulkWriteError)
    assert verdict_of(error).category == category


@pytest.mark.promise("L2")
def test_a_pool_without_a_free_connection(connect: Connect) -> None:
    asked = threading.Event()

    def hold(connection: Any) -> None:
        asked.set()
        stall(connection)

    client = connect({"find": hold}, maxPoolSize=1, waitQueueTimeoutMS=50, socketTimeoutMS=1000)
    holder = threading.Thread(target=error_of, args=(lambda: find(client),))
    holder.start()
    assert asked.wait(5)
    error = error_of(lambda: find(client))
    holder.join()
    assert isinstance(error, errors.WaitQueueTimeoutError)
    assert (verdict_of(error).category, verdict_of(error).not_sent) == ("transient", True)


@pytest.mark.promise("L2")
def test_an_srv_address_while_dns_is_away(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """pymongo calls it a wrong configuration; its cause says what it was."""
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers, resolver.port, resolver.lifetime = ["127.0.0.1"], closed_port, 0.2
    monkeypatch.setattr(dns.resolver, "default_resolver", resolver)

    def ask() -> None:
        with Client("mongodb+srv://db.example.com/", serverSelectionTimeoutMS=200, connectTimeoutMS=200) as client:
            find(client)

    error = error_of(ask)
    assert isinstance(error, errors.ConfigurationError)
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("P2")
def test_misuse(connect: Connect) -> None:
    client = connect({})
    collection = client["database"]["collection"]
    assert verdict_of(error_of(lambda: client["wrong name"])).category == "permanent"
    assert verdict_of(error_of(lambda: collection.insert_one({"x": object()}))).category == "permanent"
    assert verdict_of(error_of(lambda: Client("mongodb://user@host:port"))).category == "permanent"
