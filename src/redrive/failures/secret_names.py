"""Recognises names of secrets: password, apiKey, X-Amz-Signature, refresh_token and the like."""

import re
from functools import lru_cache

from redrive.failures.added_secrets import ADDED, WORDS

_SECRET_WORDS = frozenset(
    {
        "auth",
        "authorization",
        "cookie",
        "cookies",
        "credential",
        "credentials",
        "jwt",
        "otp",
        "passcode",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "pin",
        "pwd",
        "secret",
        "secrets",
        "session",
        "sessionid",
        "sid",
        "sig",
        "signature",
        "token",
    }
)

_SECRET_ENDINGS = (
    "accesskey",
    "accesstoken",
    "accountkey",
    "apikey",
    "apitoken",
    "authkey",
    "authtoken",
    "clientassertion",
    "clientsecret",
    "codeverifier",
    "encryptionkey",
    "idempotencykey",
    "masterkey",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secretkey",
    "sessionid",
    "sessiontoken",
    "sharedkey",
    "signature",
    "signingkey",
    "subscriptionkey",
)

# "token_type=bearer", "session_timeout=30": these describe a secret and are not secret themselves.
_DESCRIBING_WORDS = frozenset(
    {
        "age",
        "algorithm",
        "class",
        "count",
        "domain",
        "enabled",
        "endpoint",
        "error",
        "expired",
        "expires",
        "expiry",
        "kind",
        "len",
        "length",
        "limit",
        "max",
        "method",
        "min",
        "mode",
        "path",
        "policy",
        "provider",
        "required",
        "scheme",
        "size",
        "state",
        "status",
        "timeout",
        "ttl",
        "type",
        "uri",
        "url",
        "version",
    }
)

WHOLE_LINE_NAMES = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-forwarded-authorization"}
)
"""Headers whose value may contain spaces, commas and quotes, so that it extends to the end of the line."""


@lru_cache(maxsize=1024)
def names_a_secret(name: str) -> bool:
    """Whether the value of a parameter, field or header with this name must not be shown."""
    words = [word.lower() for word in re.findall(WORDS, name)]
    if ADDED.names and ADDED.has_name(words):
        return True
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[-1] in _DESCRIBING_WORDS:
        return False
    if not _SECRET_WORDS.isdisjoint(words):
        return True
    if "".join(words).removesuffix("s").endswith(_SECRET_ENDINGS):
        return True
    # "DB_PASS" is a password; a lone "pass" is an ordinary word.
    return words[-1] == "pw" or (words[-1] == "pass" and len(words) > 1)
