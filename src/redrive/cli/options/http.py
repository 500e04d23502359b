"""Options of HTTP steps: the networks that they may call, and where handlers report back."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput

if TYPE_CHECKING:
    from redrive.runners.http.settings import HttpSettings

AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="NETWORK",
        help='Let HTTP steps call this non-public network: 10.1.0.0/16, a host name, or "private" for all; repeatable.',
    ),
]
CallbackOption = Annotated[
    str,
    typer.Option(
        "--callback-base",
        metavar="URL",
        help="The public URL of the server, where handlers report the outcome of asynchronous steps.",
    ),
]


SECRETS_VARIABLE, PREFIX = "REDRIVE_SIGNING_SECRETS", "whsec_"
"""Names the file with the secrets that sign requests: an option would show its value in the list of processes."""


def _read_secrets(path: str, warns: bool) -> dict[str, list[str]]:
    """Return the secrets in the file: in each line an address, and its secrets after it.

    warns: whether to warn of a file that everyone can read.
    """
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            if warns and os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o004:
                typer.echo(f"redrive: {path} can be read by every user of this machine; chmod 600 {path}", err=True)
            lines = [line.split() for line in file]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise BadInput(f"{SECRETS_VARIABLE}: {path} cannot be read: {reason}") from None
    secrets: dict[str, list[str]] = {}
    for address, *texts in (words for words in lines if words and not words[0].startswith("#")):
        secrets.setdefault(address, []).extend(texts)
    if not secrets:
        form = f"https://shop.example.com/ {PREFIX}..."
        raise BadInput(f"{SECRETS_VARIABLE}: {path} has no secrets; write an address and its secret in a line: {form}")
    return secrets


def http_settings(allow: Sequence[str] | None, callback_base: str, warns: bool = True) -> "HttpSettings":
    """Return the settings that the options give; BadInput if they are not valid. warns: whether to print warnings."""
    from redrive.runners.http.settings import HttpSettings

    signing = _read_secrets(os.environ.get(SECRETS_VARIABLE, ""), warns)
    try:
        return HttpSettings(allow=tuple(allow or ()), callback_base=callback_base or None, signing=signing)
    except ValueError as error:
        if str(error).startswith("signing"):
            raise BadInput(f"{SECRETS_VARIABLE}: {str(error).removeprefix('signing: ')}") from None
        raise BadInput(f"--{str(error).replace('callback_base', 'callback-base')}") from None
