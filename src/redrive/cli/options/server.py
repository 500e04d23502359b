"""Options of the commands that serve HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from redrive.cli.bad_input import BadInput

HostOption = Annotated[str, typer.Option(help="The address to listen on; any but loopback needs an API key.")]
TlsCertOption = Annotated[
    str, typer.Option("--tls-cert", metavar="FILE", help="Serve HTTPS with this certificate chain (PEM).")
]
TlsKeyOption = Annotated[
    str, typer.Option("--tls-key", metavar="FILE", help="The private key of the certificate (PEM, no password).")
]


def check_tls_options(certificate: str, key: str) -> None:
    if bool(certificate) != bool(key):
        given, missing = ("--tls-cert", "--tls-key") if certificate else ("--tls-key", "--tls-cert")
        raise BadInput(f"{given} needs {missing} as well")


@contextmanager
def server_extra(command: str) -> Iterator[None]:
    """Import the server in the block; BadInput says which extra is missing."""
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("litestar", "uvicorn"):
            raise
        raise BadInput(f"{command} needs the extra 'server' ({error}): pip install 'redrive[server]'") from error
