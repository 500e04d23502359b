"""Sign requests to handlers, and verify them, with the headers of standard webhooks: HMAC-SHA256 over id, time, body.

The id is made of the attempt's receipt and delivery tokens, so that the signature covers them too. The callback URL of
an asynchronous step has a signature of its own.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from redrive.errors import SignatureError

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"
CALLBACK_SIGNATURE = "redrive-callback-signature"
VERSION = "v1"
PREFIX = "whsec_"
TOLERANCE = 300.0
"""Seconds by which the time of a request may differ from the clock of the handler."""
_SHORTEST_SECRET, _LONGEST_SECRET = 24, 64
_MOST_SECRETS = 10
_MOST_SIGNATURES = 20
_DEFAULT_PORTS = {"http": 80, "https": 443}
# The id shows dots as underscores. It stands for one pair of tokens only because they have no underscores of their own.
_RECEIPT, _DELIVERY = re.compile(r"[^._]+\.[0-9]+"), re.compile(r"[^._]+")


def read_secret(text: str) -> bytes:
    """Return the key in "whsec_<base64>"; ValueError, without the secret, if it is not one."""
    try:
        if isinstance(text, str) and text.startswith(PREFIX):
            key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
            if _SHORTEST_SECRET <= len(key) <= _LONGEST_SECRET:
                return key
    except (binascii.Error, ValueError):
        pass
    raise ValueError(
        f"a secret is not valid; use {PREFIX} and {_SHORTEST_SECRET} to {_LONGEST_SECRET} random bytes in base64, as "
        "redrive keys secret prints it"
    )


def message_id(receipt_token: str, delivery_token: str) -> str:
    """Return the id of an attempt's request; without dots, which separate the parts that are signed."""
    return f"{receipt_token}.{delivery_token}".replace(".", "_")


def signature(key: bytes, message: str, timestamp: str, body: bytes) -> str:
    signed = to_bytes(f"{message}.{timestamp}.") + body
    return f"{VERSION},{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


def callback_signature(key: bytes, message: str, timestamp: str, callback: str) -> str:
    """Sign the callback URL of a request, which is a header, and not covered by the signature of a webhook."""
    # No header holds a line break: this is never the signature of another request, whatever its body.
    return signature(key, f"callback\n{message}", timestamp, to_bytes(callback))


def to_bytes(header: str) -> bytes:
    """Encode the value of a header, whatever it is: some frameworks decode bytes that are not UTF-8 to surrogates."""
    return header.encode("utf-8", "surrogatepass")


class Signer:
    """Signs the requests to those endpoints that have secrets."""

    def __init__(self, secrets: Mapping[str, str | Sequence[str]]) -> None:
        """`secrets`: the beginning of the address -> its secrets; ValueError for those that are not valid."""
        self._keys: list[tuple[SplitResult, list[bytes]]] = []
        for address, texts in secrets.items():
            parts = _address(address)
            given = [texts] if isinstance(texts, str) else list(texts)
            if not 1 <= len(given) <= _MOST_SECRETS:
                raise ValueError(f"signing: {address} has {len(given)} secrets; use 1 to {_MOST_SECRETS}")
            try:
                self._keys.append((parts, [read_secret(one) for one in given]))
            except ValueError as error:
                raise ValueError(f"signing: {address}: {error}") from None
        # The longest path that fits decides.
        self._keys.sort(key=lambda one: len(one[0].path), reverse=True)

    def headers(
        self, endpoint: str, message: str, body: bytes, now: float, callback: str | None = None
    ) -> dict[str, str]:
        """Return the headers that sign the request and its callback URL; empty for an endpoint without secrets."""
        if not self._keys:
            return {}
        target = urlsplit(endpoint)
        for address, keys in self._keys:
            if _origin(target) == _origin(address) and _is_below(target.path, address.path):
                timestamp = str(int(now))
                signatures = [signature(key, message, timestamp, body) for key in keys]
                made = {ID: message, TIMESTAMP: timestamp, SIGNATURE: " ".join(signatures)}
                if callback is not None:
                    signatures = [callback_signature(key, message, timestamp, callback) for key in keys]
                    made[CALLBACK_SIGNATURE] = " ".join(signatures)
                return made
        return {}


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Iterable[str],
    *,
    now: float,
    tokens: tuple[str, str] | None = None,
    callback: str | None = None,
    tolerance: float = TOLERANCE,
) -> None:
    """Check that the request was signed with one of the secrets not long ago; raises SignatureError.

    tokens: the receipt and the delivery token of the request, which the signature must cover.
    callback: the callback URL of the request, which has a signature of its own.
    """
    keys = [read_secret(one) for one in secrets]
    given = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]
    if missing:
        raise SignatureError(f"the request is not signed: the header {missing[0]} is missing")
    message, timestamp = given[ID], given[TIMESTAMP]
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 13):
        raise SignatureError(f"the header {TIMESTAMP} is not a number of seconds")
    expected = [signature(key, message, timestamp, body) for key in keys]
    if not _any_matches(expected, given[SIGNATURE]):
        raise SignatureError("the signature does not match: another secret was used, or the request was changed")
    if abs(now - int(timestamp)) > tolerance:
        raise SignatureError(f"the request was signed more than {tolerance:g} s ago or ahead; check the clocks")
    if tokens is not None and not _stands_for(message, *tokens):
        raise SignatureError("the tokens in the headers are not those that were signed")
    if callback is not None:
        expected = [callback_signature(key, message, timestamp, callback) for key in keys]
        if not _any_matches(expected, given.get(CALLBACK_SIGNATURE, "")):
            raise SignatureError("the callback URL is not that of the attempt that was signed")


def _any_matches(expected: list[str], header: str) -> bool:
    offered = header.split(" ")[:_MOST_SIGNATURES]
    # All are compared, each in constant time.
    matches = [hmac.compare_digest(one.encode(), to_bytes(other)) for one in expected for other in offered]
    return any(matches)


def _stands_for(message: str, receipt_token: str, delivery_token: str) -> bool:
    """Whether it is the id of these tokens, and could not be that of others."""
    if not (_RECEIPT.fullmatch(receipt_token) and _DELIVERY.fullmatch(delivery_token)):
        return False
    return hmac.compare_digest(to_bytes(message_id(receipt_token, delivery_token)), to_bytes(message))


def _address(text: str) -> SplitResult:
    refusal = ValueError(f"signing: {text!r:.100} is not an address; use one such as https://shop.example.com/steps")
    try:
        parts = urlsplit(text)
        _origin(parts)
    except ValueError:
        raise refusal from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        raise refusal
    if parts.query or parts.fragment:
        raise refusal
    return parts


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _is_below(path: str, prefix: str) -> bool:
    """Whether the path is the prefix or continues it after a slash: /steps-2 is not below /steps."""
    return path == prefix or path.startswith(prefix.rstrip("/") + "/") or prefix.rstrip("/") == ""
