"""Codecs encode payloads before a store gets them: `redrive.open(url, codec=redrive.codecs.AesGcm(keys))`.

With one, neither the store nor its backups hold inputs, results, error messages or signals in clear.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["AesGcm", "Codec", "codec_from_environment"]

KEYS_VARIABLE = "REDRIVE_CODEC_KEYS"
FILE_VARIABLE = "REDRIVE_CODEC_KEYS_FILE"

_KEY = 32
_SALT, _NONCE, _TAG = 16, 12, 16


class Codec(Protocol):
    """What `redrive.open(codec=...)` takes. It is called from several threads."""

    @property
    def keys(self) -> Sequence[str]:
        """The ids of the keys that it has: 1 to 64 letters, digits and _ . - each. The first one encodes."""
        ...

    def encode(self, data: bytes, context: bytes) -> bytes:
        """Encode with the first key. context: says where the data belongs; decoding is given the same."""
        ...

    def decode(self, data: bytes, context: bytes, key: str) -> bytes:
        """Decode what the key with this id, which is one of `keys`, has encoded.

        ValueError when the data was changed, or belongs to another context.
        """
        ...


class AesGcm:
    """AES-256-GCM, with as many keys as it takes to read what was written. Needs the extra: redrive[encryption].

    A text that is changed, or moved to another flow or place of a log, is no longer decoded.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        """keys: as `AesGcm.new_key()` makes them. The first one encodes, and all of them decode."""
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ImportError("AesGcm needs cryptography; install it with: pip install 'redrive[encryption]'") from None
        if isinstance(keys, str) or not keys:
            raise ValueError("keys: use a list of at least one key, such as [AesGcm.new_key()]")
        self._cipher, self._invalid = AESGCM, InvalidTag
        secrets = [_read_key(number, key) for number, key in enumerate(keys, start=1)]
        self._secrets = {hashlib.sha256(b"redrive key id" + secret).hexdigest()[:12]: secret for secret in secrets}
        self.keys = tuple(self._secrets)

    @staticmethod
    def new_key() -> str:
        """Make a key: 32 random bytes, in base64."""
        return base64.urlsafe_b64encode(os.urandom(_KEY)).decode()

    def encode(self, data: bytes, context: bytes) -> bytes:
        # Each text has a key of its own: with one key for all, random nonces would repeat after some billions of texts.
        salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
        return salt + nonce + self._of_one_text(self.keys[0], salt).encrypt(nonce, data, context)

    def decode(self, data: bytes, context: bytes, key: str) -> bytes:
        if len(data) < _SALT + _NONCE + _TAG:
            raise ValueError("it is too short")
        salt, nonce, encoded = data[:_SALT], data[_SALT : _SALT + _NONCE], data[_SALT + _NONCE :]
        try:
            return self._of_one_text(key, salt).decrypt(nonce, encoded, context)
        except self._invalid:
            raise ValueError("it was changed, or belongs to another flow or place") from None

    def _of_one_text(self, key: str, salt: bytes) -> "AESGCM":
        return self._cipher(hmac.digest(self._secrets[key], salt, "sha256"))

    def __repr__(self) -> str:
        return f"AesGcm(<keys {', '.join(self.keys)}>)"


def codec_from_environment() -> AesGcm | None:
    """Return the codec with the keys of REDRIVE_CODEC_KEYS, or of the file that REDRIVE_CODEC_KEYS_FILE names.

    Keys are parted by commas or white space. None where neither variable is set; ValueError for keys that are wrong.
    """
    text, path, source = os.environ.get(KEYS_VARIABLE), os.environ.get(FILE_VARIABLE), KEYS_VARIABLE
    if text and path:
        raise ValueError(f"{KEYS_VARIABLE} and {FILE_VARIABLE} are both set; use one of them")
    if path:
        source = FILE_VARIABLE
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{FILE_VARIABLE}: {path} cannot be read: {error}") from None
    elif not text:
        return None
    try:
        return AesGcm((text or "").replace(",", " ").split())
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    except ImportError as error:
        raise ValueError(f"{source} is set, and {error}") from None


def _read_key(number: int, key: str) -> bytes:
    # The text is a secret, so no message shows it.
    try:
        read = base64.b64decode(key.encode().translate(bytes.maketrans(b"-_", b"+/")), validate=True)
    except (binascii.Error, AttributeError):
        read = b""
    if len(read) != _KEY:
        raise ValueError(
            f"key {number} is not {_KEY} bytes in base64; make one with: "
            "python -c 'import redrive; print(redrive.codecs.AesGcm.new_key())'"
        )
    return read
