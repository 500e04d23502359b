"""Verify that a request to a handler was signed by the engine."""

import hmac
from collections.abc import Iterable, Mapping

from redrive.calls.ownership_headers import DELIVERY_TOKEN
from redrive.determinism.clock import current_clock
from redrive.errors import SignatureError
from redrive.runners.http import request, signing


def verify_request(headers: Mapping[str, str], body: bytes, secrets: Iterable[str]) -> None:
    """Check that the engine sent the request: it is signed with one of the secrets, within five minutes, unchanged.

    Raises SignatureError; answer 401 then. The signature covers the body, the attempt's tokens and the whole callback
    URL. Pass the body as it was received, before it is decoded.
    """
    given = {name.lower(): value for name, value in headers.items()}
    tokens = given.get(request.RECEIPT_TOKEN.lower(), ""), given.get(DELIVERY_TOKEN.lower(), "")
    callback, key = given.get(request.CALLBACK.lower()), given.get(request.IDEMPOTENCY_KEY.lower())
    signing.verify(given, body, secrets, now=current_clock().wall(), tokens=tokens, callback=callback)
    if key is not None and not hmac.compare_digest(signing.to_bytes(key), signing.to_bytes(tokens[0])):
        raise SignatureError("the idempotency key is not that of the work that was signed")
