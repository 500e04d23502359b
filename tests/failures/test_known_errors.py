"""How errors are looked up: by class, by base, by what they look like; and without importing anything."""

import errno
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.failures.known_errors.lookup import KNOWN_ERRORS, known_verdict

from .asking import look_alike, verdict_of


class TestBuiltins:
    @pytest.mark.promise("P1")
    @pytest.mark.parametrize(
        "error",
        [
            ConnectionError(),
            ConnectionResetError(errno.ECONNRESET, "reset"),
            ConnectionAbortedError(),
            BrokenPipeError(errno.EPIPE, "broken pipe"),
            TimeoutError(),
            TimeoutError("timed out"),
            BlockingIOError(),
            InterruptedError(),
        ],
    )
    def test_connections_and_timeouts_pass(self, error: Exception) -> None:
        assert verdict_of(error).category == "transient"
        assert not verdict_of(error).not_sent

    @pytest.mark.promise("P2")
    @pytest.mark.parametrize(
        "error",
        [
            ValueError("x"),
            TypeError("x"),
            KeyError("x"),
            IndexError("x"),
            LookupError("x"),
            AttributeError("x"),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
            NotImplementedError(),
            AssertionError(),
            ZeroDivisionError(),
            NameError(),
            ModuleNotFoundError(),
            FileNotFoundError(),
            PermissionError(),
            IsADirectoryError(),
        ],
    )
    def test_validation_and_missing_data_stay(self, error: Exception) -> None:
        assert verdict_of(error).category == "permanent"

    @pytest.mark.promise("P4")
    @pytest.mark.parametrize("error", [Exception("x"), RuntimeError("x"), OSError("x"), MemoryError(), EOFError()])
    def test_what_says_neither_is_not_known(self, error: Exception) -> None:
        assert known_verdict(error) is None

    @pytest.mark.parametrize("base", [ConnectionError, TimeoutError, ValueError])
    def test_subclasses_are_known_by_their_bases(self, base: type[Exception]) -> None:
        kind = type("Special", (base,), {})
        assert known_verdict(kind("x")) == known_verdict(base("x"))

    def test_the_nearest_base_answers(self) -> None:
        both = type("Both", (ConnectionError, ValueError), {})
        assert verdict_of(both()).category == "transient"


class TestUnknownLibraries:
    @pytest.mark.promise("S1")
    @pytest.mark.parametrize("name", ["status_code", "status", "http_status"])
    def test_a_status_under_a_usual_name(self, name: str) -> None:
        assert verdict_of(look_alike("some.sdk.ApiError", **{name: 503})).category == "transient"
        assert verdict_of(look_alike("some.sdk.ApiError", **{name: 422})).category == "permanent"

    @pytest.mark.promise("P7")
    @pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER"])
    def test_a_response_with_headers(self, name: str) -> None:
        response = type("Response", (), {"status_code": 429, "headers": {"a": "b", name: "12"}})()
        verdict = verdict_of(look_alike("some.sdk.ApiError", response=response))
        assert (verdict.category, verdict.status, verdict.retry_after) == ("transient", 429, "12")

    @pytest.mark.parametrize(
        "headers", [[("Retry-After", "12")], [(b"retry-after", b"12")], {"Retry-After": ["12", "13"]}]
    )
    def test_headers_of_other_kinds(self, headers: Any) -> None:
        assert verdict_of(look_alike("some.sdk.ApiError", status=503, headers=headers)).retry_after == "12"

    @pytest.mark.parametrize("headers", [5, object(), "text", [1], {"Retry-After": None}, {1: 2}])
    def test_headers_that_are_none(self, headers: Any) -> None:
        verdict = verdict_of(look_alike("some.sdk.ApiError", status=503, headers=headers))
        assert verdict.category == "transient"
        assert verdict.retry_after in (None, "None")

    @pytest.mark.parametrize("status", [0, 99, 200, 302, 600, True, "503", 503.0, None])
    def test_what_is_no_failing_status_says_nothing(self, status: object) -> None:
        assert known_verdict(look_alike("some.sdk.ApiError", status_code=status)) is None

    def test_an_sqlstate_of_an_unknown_driver(self) -> None:
        assert verdict_of(look_alike("some.driver.Error", sqlstate="40001")).category == "transient"
        assert known_verdict(look_alike("some.driver.Error", sqlstate="not one")) is None


class TestMisbehaviour:
    def test_properties_that_raise(self) -> None:
        def boom(self: object) -> None:
            raise RuntimeError("no")

        for name in ("response", "status_code", "status", "headers", "sqlstate", "errno", "orig", "reason", "code"):
            for qualified in ("some.Error", "grpc.RpcError", "sqlalchemy.exc.StatementError", "urllib.error.HTTPError"):
                assert known_verdict(look_alike(qualified, **{name: property(boom)})) is None

    def test_an_error_that_wraps_itself(self) -> None:
        kind = type(look_alike("sqlalchemy.exc.StatementError"))
        error: Any = kind("x")
        error.orig = error
        assert known_verdict(error) is None
        loop = urllib.error.URLError("x")
        loop.reason = loop
        assert known_verdict(loop) is None

    def test_wrappers_are_opened_but_not_without_end(self) -> None:
        def wrapped(times: int) -> BaseException:
            error: BaseException = ConnectionRefusedError()
            for _ in range(times):
                error = urllib.error.URLError(error)
            return error

        assert verdict_of(wrapped(3)).not_sent
        assert known_verdict(wrapped(50)) is None

    @given(st.sampled_from(sorted(KNOWN_ERRORS)))
    def test_a_bare_instance_of_any_known_name_is_answered_without_raising(self, qualified: str) -> None:
        verdict = known_verdict(look_alike(qualified))
        assert verdict is None or verdict.reason


def test_no_library_is_imported_to_know_its_errors() -> None:
    """In a fresh interpreter, which has imported nothing but redrive and what redrive needs."""
    program = """
import sys
libraries = {"httpx", "httpcore", "requests", "urllib3", "aiohttp", "asyncpg", "psycopg", "sqlalchemy", "grpc", "redis",
             "botocore", "pydantic", "trio", "sqlite3", "ssl", "pymongo", "kafka", "aiokafka", "elasticsearch",
             "paramiko", "smtplib", "dns"}
from redrive.failures.known_errors.lookup import KNOWN_ERRORS, known_verdict
before = libraries & set(sys.modules)
for qualified in KNOWN_ERRORS:
    module, _, name = qualified.rpartition(".")
    error = type(name, (Exception,), {"__module__": module})("x")
    known_verdict(error)
look_alike = type("ConnectError", (Exception,), {"__module__": "httpx"})("x")
assert known_verdict(look_alike).not_sent
print(sorted(before), sorted(libraries & set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - this interpreter, a fixed program
    assert done.stdout.split() == ["[]", "[]"]
