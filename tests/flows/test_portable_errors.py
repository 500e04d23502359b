"""Exceptions come back from the store as they went in: the same class, text, arguments and attributes."""

import asyncio
import concurrent.futures
import configparser
import decimal
import email.errors
import errno
import http.client
import json
import queue
import shutil
import socket
import sqlite3
import ssl
import subprocess
import urllib.error
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http import HTTPStatus
from pathlib import Path
from typing import Generic, TypeVar
from uuid import UUID

import aiohttp
import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import httpx
import msgspec
import psycopg
import pytest
import requests
import yaml
import yarl
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from redrive.errors import (
    AttemptTimeoutError,
    CircuitOpenError,
    DeadlineExceededError,
    Permanent,
    ResultRejectedError,
    RetryAfter,
    Snooze,
)
from redrive.flows.errors.stored_error import _Budget, _store, _store_plain, store_error

from .storing_errors import NetworkError, raised, through_the_store


class ServiceDown(NetworkError):
    def __init__(self, service: str, status: HTTPStatus, *, wait: timedelta) -> None:
        super().__init__(f"{service} is down")
        self.service = service
        self.status = status
        self.wait = wait
        self.seen = {"at": datetime(2026, 1, 1, tzinfo=UTC), 5: (Decimal("1.50"), {"a", "b"}), "none": None}
        self.id = UUID(int=7)
        self.body = b"\xff\x00"
        self.file = Path("/tmp/x")  # noqa: S108 - only a name
        self.connection = socket  # has no plain form


class WithoutSuper(Exception):
    def __init__(self, code: int) -> None:
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


class Slotted(Exception):
    __slots__ = ("code", "unset")

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(frozen=True)
class Frozen(Exception):
    code: int
    why: str = "because"


@dataclass
class Plain(Exception):
    code: int

    def __str__(self) -> str:
        return f"plain {self.code}"


class StrictNew(Exception):
    def __new__(cls, *, code: int) -> "StrictNew":
        made = super().__new__(cls, f"strict {code}")
        made.code = code
        return made

    def __init__(self, *, code: int) -> None:
        pass

    code: int


class MyOSError(OSError):
    def __init__(self, host: str, number: int) -> None:
        super().__init__(number, f"{host} refused")
        self.host = host


class Both(ConnectionError, LookupError):
    pass


T = TypeVar("T")


class Generically(Exception, Generic[T]):
    pass


class MyGroup(ExceptionGroup[ValueError]):
    pass


async def aiohttp_failure() -> BaseException:
    async with aiohttp.ClientSession() as session:
        try:
            await session.get("http://127.0.0.1:1/")
        except aiohttp.ClientError as error:
            return error
    raise AssertionError("it did not fail")


def noted() -> BaseException:
    error = ValueError("x")
    error.add_note("first\nline")
    error.add_note("second")
    return error


EXACT: list[Callable[[], BaseException]] = [
    lambda: ConnectionError("x"),
    lambda: ValueError(),
    lambda: ValueError("two\nlines\tand a tab"),
    lambda: ValueError("a", 2, [3.5, None, True]),
    lambda: ValueError(("a", 1), {"b": {3: frozenset({4})}}, b"\x00\xff"),
    lambda: ValueError(2**100, -(2**70)),
    lambda: ValueError("é" * 300),
    lambda: KeyError("customer_id"),
    lambda: KeyError(5),
    lambda: KeyError(("a", 1)),
    lambda: raised(dict[str, int]().__getitem__, "missing"),
    lambda: raised(list[int]().__getitem__, 3),
    lambda: raised(lambda: 1 / 0),
    lambda: raised(lambda: None.missing),  # type: ignore[attr-defined]
    lambda: raised(lambda: missing),  # type: ignore[name-defined]  # noqa: F821 - what is tried
    lambda: raised(open, "/no/such/file"),
    lambda: raised(socket.getaddrinfo, "no.such.host.invalid", 80),
    lambda: OSError(errno.ECONNREFUSED, "Connection refused"),
    lambda: OSError(errno.ENOENT, "No such file", "from.txt", None, "to.txt"),
    lambda: OSError("only text"),
    lambda: OSError(),
    lambda: BlockingIOError(errno.EAGAIN, "again", 3),
    lambda: TimeoutError(110, "Connection timed out"),
    lambda: MyOSError("db", errno.ECONNRESET),
    lambda: socket.herror(1, "unknown host"),
    lambda: ssl.SSLError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] failed"),
    lambda: ssl.SSLCertVerificationError(1, "failed"),
    lambda: shutil.SameFileError("a and b are the same"),
    lambda: raised(b"ab\xff".decode),
    lambda: raised((b"x" * 900 + b"\xff").decode),
    lambda: raised("é".encode, "ascii"),
    lambda: UnicodeTranslateError("abc", 1, 2, "why"),
    lambda: StopIteration({"value": [1]}),
    lambda: StopAsyncIteration(3),
    lambda: SystemExit(3),
    lambda: SystemExit("bye"),
    lambda: KeyboardInterrupt(),
    lambda: GeneratorExit(),
    lambda: asyncio.CancelledError("stop"),
    lambda: asyncio.IncompleteReadError(b"abc", 10),
    lambda: asyncio.LimitOverrunError("too long", 5),
    lambda: asyncio.InvalidStateError("x"),
    lambda: asyncio.QueueEmpty(),
    lambda: queue.Empty(),
    lambda: concurrent.futures.BrokenExecutor("gone"),
    lambda: ImportError("no module", name="redis", path="/x"),
    lambda: raised(__import__, "no_such_module"),
    lambda: raised(compile, "a b", "file.py", "exec"),
    lambda: raised(json.loads, '{"a": nope}'),
    lambda: raised(ET.fromstring, "<a>"),
    lambda: raised(int, "x"),
    lambda: raised(Decimal, "x"),
    lambda: decimal.DivisionByZero(),
    lambda: raised(configparser.ConfigParser().get, "a", "b"),
    lambda: raised(zipfile.ZipFile, __file__),
    lambda: email.errors.MessageParseError("x"),
    lambda: http.client.IncompleteRead(b"abc", 7),
    lambda: http.client.BadStatusLine("nonsense"),
    lambda: http.client.RemoteDisconnected("Remote end closed connection without response"),
    lambda: urllib.error.URLError("refused"),
    lambda: subprocess.TimeoutExpired(["ls", "-l"], 3.5),
    lambda: subprocess.CalledProcessError(2, "ls -l", b"out", b"err"),
    lambda: sqlite3.OperationalError("locked"),
    lambda: sqlite3.IntegrityError("UNIQUE constraint failed: t.a"),
    lambda: raised(httpx.get, "http://127.0.0.1:1/", trust_env=False),
    lambda: raised(httpx.Response(503, request=httpx.Request("GET", "http://x/")).raise_for_status),
    lambda: httpx.ReadTimeout("timed out"),
    lambda: httpx.InvalidURL("bad"),
    lambda: requests.exceptions.ReadTimeout("read timed out"),
    lambda: raised(requests.get, "http://127.0.0.1:1/", proxies={"http": ""}, timeout=3),
    lambda: requests.exceptions.HTTPError("503 Server Error", response=requests.Response()),
    lambda: aiohttp.ServerDisconnectedError(),
    lambda: aiohttp.ClientPayloadError("cut off"),
    lambda: aiohttp.ClientOSError(errno.ECONNRESET, "reset"),
    lambda: asyncpg.UniqueViolationError("duplicate key"),
    lambda: asyncpg.InterfaceError("connection is closed"),
    lambda: psycopg.errors.SerializationFailure("could not serialize"),
    lambda: psycopg.OperationalError("server closed the connection unexpectedly"),
    lambda: msgspec.ValidationError("Expected `int`, got `str` - at `$.a`"),
    lambda: Permanent("no"),
    lambda: RetryAfter(30, "busy"),
    lambda: RetryAfter(timedelta(seconds=90)),
    lambda: RetryAfter("2m"),
    lambda: Snooze("5m"),
    lambda: AttemptTimeoutError(2.5),
    lambda: DeadlineExceededError(60.0),
    lambda: ResultRejectedError({"a": 1}),
    lambda: CircuitOpenError("payments", 3.25),
    lambda: ServiceDown("payments", HTTPStatus.BAD_GATEWAY, wait=timedelta(seconds=3)),
    lambda: WithoutSuper(7),
    lambda: Slotted(7),
    lambda: Frozen(7),
    lambda: Plain(7),
    lambda: StrictNew(code=7),
    lambda: Both("both"),
    lambda: Generically[int]("x"),
    lambda: ExceptionGroup("several", [ValueError("a"), OSError(5, "b"), ExceptionGroup("inner", [KeyError("c")])]),
    lambda: BaseExceptionGroup("stop", [KeyboardInterrupt(), ValueError("a")]),
    lambda: MyGroup("mine", [ValueError("a")]),
    noted,
]


@pytest.mark.parametrize("make", EXACT)
def test_an_exception_comes_back_with_its_class_text_and_arguments(make: Callable[[], BaseException]) -> None:
    error = make()
    rebuilt = through_the_store(error)
    assert type(rebuilt) is type(error)
    assert str(rebuilt) == str(error)
    assert getattr(rebuilt, "__notes__", None) == getattr(error, "__notes__", None)
    if store_error(error).args is not None and not isinstance(error, BaseExceptionGroup):
        assert rebuilt.args == error.args


@pytest.mark.parametrize("make", EXACT)
def test_the_short_way_of_storing_an_exception_gives_what_the_long_way_does(make: Callable[[], BaseException]) -> None:
    error = make()
    assert _store_plain(error) in (None, _store(error, _Budget(), 0))


@given(
    st.sampled_from([ValueError, ConnectionError, KeyError, StopIteration, UnicodeError, SystemExit, NetworkError]),
    st.text() | st.sampled_from(["the service is away", "password=hunter2", "a\nb", "\ud800", "x" * 600]),
)
def test_so_it_does_for_any_text(kind: type[BaseException], text: str) -> None:
    error = kind(text)
    assert _store_plain(error) in (None, _store(error, _Budget(), 0))


def test_an_exception_with_nothing_but_a_text_takes_the_short_way() -> None:
    assert _store_plain(ConnectionError("the service is away")) is not None


def response_error() -> BaseException:
    url = yarl.URL("http://x/")
    info = aiohttp.RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    return aiohttp.ClientResponseError(info, (), status=503, message="busy")


@pytest.mark.parametrize(
    "make",
    [
        response_error,
        lambda: asyncio.run(aiohttp_failure()),
        lambda: raised(yaml.safe_load, "a: ]"),
        lambda: KeyError(object()),
        lambda: OSError(errno.EIO, "gone", object()),
        lambda: raised("\ud800".encode),
        lambda: raised((b"x" * 3000 + b"\xff").decode),
        lambda: urllib.error.HTTPError("http://x/", 503, "busy", None, None),  # type: ignore[arg-type]
        lambda: ExceptionGroup("many", [ValueError(str(number)) for number in range(80)]),
    ],
)
def test_an_exception_whose_parts_cannot_be_stored_is_still_caught_and_prints_the_same(
    make: Callable[[], BaseException],
) -> None:
    error = make()
    rebuilt = through_the_store(error)
    assert isinstance(rebuilt, type(error))
    assert type(rebuilt).__qualname__ == type(error).__qualname__
    assert str(rebuilt) == store_error(error).message


def test_attributes_come_back_with_their_types() -> None:
    error = ServiceDown("payments", HTTPStatus.BAD_GATEWAY, wait=timedelta(seconds=3))
    rebuilt = through_the_store(error)
    assert isinstance(rebuilt, ServiceDown)
    assert vars(rebuilt) == {name: value for name, value in vars(error).items() if name != "connection"}
    assert isinstance(rebuilt.wait, timedelta)


def test_attributes_of_built_in_exceptions_come_back() -> None:
    missing = through_the_store(raised(open, "/no/such/file"))
    assert isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.strerror, missing.filename) == (2, "No such file or directory", "/no/such/file")
    undecodable = through_the_store(raised(b"ab\xff".decode))
    assert isinstance(undecodable, UnicodeDecodeError)
    assert (undecodable.object, undecodable.start, undecodable.reason) == (b"ab\xff", 2, "invalid start byte")
    absent = through_the_store(ImportError("redis", name="redis", path="/x"))
    assert isinstance(absent, ImportError)
    assert (absent.msg, absent.name, absent.path) == ("redis", "redis", "/x")
    refused = through_the_store(MyOSError("db", errno.ECONNRESET))
    assert isinstance(refused, MyOSError)
    assert (refused.errno, refused.host) == (errno.ECONNRESET, "db")
    assert through_the_store(StopIteration(5)).value == 5  # type: ignore[attr-defined]
    assert through_the_store(SystemExit(3)).code == 3  # type: ignore[attr-defined]
    asked = through_the_store(RetryAfter(timedelta(seconds=90)))
    assert isinstance(asked, RetryAfter)
    assert (asked.delay, asked.seconds) == (timedelta(seconds=90), 90.0)
    assert through_the_store(Slotted(7)).code == 7  # type: ignore[attr-defined]


def test_the_causes_come_back() -> None:
    def fail() -> None:
        try:
            try:
                raise OSError(5, "disk")
            except OSError:
                raise KeyError("while handling")  # noqa: B904 - what is tried
        except KeyError as error:
            raise NetworkError("top") from error

    rebuilt = through_the_store(raised(fail))
    cause = rebuilt.__cause__
    assert isinstance(cause, KeyError)
    assert isinstance(cause.__cause__, OSError)
    assert cause.__cause__.__cause__ is None


def test_an_exception_that_cannot_be_changed_keeps_its_cause_and_notes() -> None:
    error = Frozen(7)
    BaseException.__setattr__(error, "__notes__", ["a note"])
    BaseException.__setattr__(error, "__cause__", ValueError("why"))
    rebuilt = through_the_store(error)
    assert isinstance(rebuilt.__cause__, ValueError)
    assert rebuilt.__notes__ == ["a note"]


def test_a_suppressed_context_is_not_stored() -> None:
    def fail() -> None:
        try:
            raise OSError("inner")
        except OSError:
            raise ValueError("outer") from None

    assert store_error(raised(fail)).cause is None


def test_endless_causes_and_groups_are_bounded() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    group: Exception = ValueError("x")
    for _ in range(50):
        group = ExceptionGroup("deep", [group, *(ValueError("y") for _ in range(5))])
    wide = ExceptionGroup("wide", [ExceptionGroup("part", [first] * 50)] * 50)
    for error in (first, group, wide):
        through_the_store(error)
        assert len(msgspec.json.encode(store_error(error))) < 50_000
    members = through_the_store(ExceptionGroup("many", [ValueError(str(n)) for n in range(80)])).exceptions  # type: ignore[attr-defined]
    assert str(members[-1]) == "further errors are left out"


def test_large_details_are_bounded() -> None:
    error = ValueError("x" * 1_000_000, b"y" * 1_000_000, list(range(100_000)))
    for number in range(1000):
        setattr(error, f"attribute{number}", "z" * 1000)
    through_the_store(error)
    assert len(msgspec.json.encode(store_error(error))) < 20_000
    assert len(str(through_the_store(ValueError("word " * 1_000_000)))) == 2000
