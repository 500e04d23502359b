"""No secret that an exception holds reaches the store."""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.flows.errors.stored_error import store_error

from .storing_errors import NetworkError, raised, through_the_store

SECRET = "hunter2XYZZY"


class LoginFailed(Exception):
    def __init__(self, user: str, credential: str) -> None:
        super().__init__(user, credential)

    def __str__(self) -> str:
        return f"login of {self.args[0]} with password={self.args[1]} failed"


def holding(secret: str) -> Iterator[BaseException]:
    """Exceptions with a secret in every place that one may have."""
    for text in (
        f"password={secret}",
        f"cannot reach postgresql://bob:{secret}@db/app\nat all",
        f"sent -H 'Authorization: Bearer {secret}' and failed",
        f'{{"password":"quo\\"ted {secret}","a":1}}',
        f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----",
        f"{'long ' * 1000} https://h/?access_token={secret} {'long ' * 1000}",
    ):
        yield ValueError(text)
        yield KeyError(text)
        yield ValueError("x", [text], {"a": (text,)}, {text.encode()})
        error = ValueError("x")
        error.attribute = error.raw = text  # type: ignore[attr-defined]
        error.add_note(text)
        yield error
        yield raised(json.loads, f"{text} ]")
        outer = NetworkError("outer")
        outer.__cause__ = ValueError(text)
        yield outer
        inner = NetworkError("outer")
        inner.__context__ = ValueError(text)
        yield inner
        yield ExceptionGroup(text, [ValueError("x"), ValueError(text)])
        yield OSError(5, text, text)
        yield UnicodeDecodeError("utf-8", text.encode()[-1000:], 0, 1, "why")
    error = ValueError("x")
    error.password = error.api_key = error.sessionToken = secret  # type: ignore[attr-defined]
    error.headers = {"X-Api-Key": secret, b"cookie": secret, "a": [("Authorization", f"Digest {secret}")]}  # type: ignore[attr-defined]
    yield error
    yield LoginFailed("bob", secret)
    yield ValueError("password", secret)
    yield ValueError("token:", secret.encode())
    yield subprocess.CalledProcessError(1, ["mysql", "--password", secret], f"secret={secret}".encode(), b"")
    remembering = ValueError(f"token={secret}")
    remembering.value = secret  # type: ignore[attr-defined]
    remembering.values = {"deep": [secret]}  # type: ignore[attr-defined]
    yield remembering


@pytest.mark.promise("P11")
def test_no_secret_reaches_the_store() -> None:
    for error in holding(SECRET):
        through_the_store(error)
        stored = msgspec.json.encode(store_error(error)).decode()
        assert SECRET not in stored, repr(error)
        for inner in _strings(msgspec.json.decode(stored)):
            assert SECRET not in inner


def _strings(plain: Any) -> Iterator[str]:
    """Every text in it, and every text that bytes in it hold."""
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, list):
        for item in plain:
            yield from _strings(item)
    elif isinstance(plain, dict):
        if plain.get("$") == "bytes":
            yield msgspec.convert(plain["of"], bytes).decode("latin-1")
        for item in plain.values():
            yield from _strings(item)


texts = st.text(max_size=30) | st.sampled_from([f"password={SECRET}", f"token: {SECRET}", "x\ny", "***", "a" * 2500])
details = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary(max_size=20)
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([ValueError, KeyError, OSError, NetworkError, LoginFailed, UnicodeDecodeError, StopIteration]),
    st.lists(details, max_size=3),
    st.dictionaries(st.sampled_from(["a", "status", "password", "$", "_x"]), details, max_size=3),
)
def test_whatever_an_exception_holds_it_is_the_same_live_and_replayed(
    kind: Any, args: list[Any], state: dict[str, Any]
) -> None:
    error: BaseException = kind.__new__(kind, *args)
    error.args = tuple(args)
    vars(error).update(state)
    rebuilt = through_the_store(error)
    assert isinstance(rebuilt, kind)
    assert SECRET not in msgspec.json.encode(store_error(error)).decode()
