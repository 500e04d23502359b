"""The server's certificate and key."""

import ssl


class TlsError(Exception):
    """The certificate or the key cannot be used."""


class TlsFiles:
    """A certificate chain and its private key in PEM files; TlsError if they cannot be used."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate = certificate
        self._key = key
        self.context = self._load()

    def _load(self) -> ssl.SSLContext:
        for file in (self._certificate, self._key):
            try:
                with open(file, "rb") as opened:
                    opened.read(1)
            except OSError as error:
                raise TlsError(f"cannot read {file}: {error.strerror or error}") from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise TlsError(self._reason(error)) from None
        return context

    def _reason(self, error: Exception) -> str:
        if isinstance(error, _PasswordNeeded):
            return f"{self._key} is encrypted; give a key without a password"
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            return f"{self._key} is not the key of the certificate {self._certificate}"
        return (
            f"{self._certificate} and {self._key} are not a certificate and its key in PEM form "
            f"({getattr(error, 'reason', None) or error})"
        )


class _PasswordNeeded(ValueError):
    pass


def _no_password() -> str:
    # Without this, OpenSSL would ask for it on the terminal.
    raise _PasswordNeeded
