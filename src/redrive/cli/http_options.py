"""Options of HTTP steps: the networks that they may call, and where handlers report back."""

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


def http_settings(allow: Sequence[str] | None, callback_base: str) -> "HttpSettings":
    from redrive.runners.http.settings import HttpSettings

    try:
        return HttpSettings(allow=tuple(allow or ()), callback_base=callback_base or None)
    except ValueError as error:
        raise BadInput(f"--{str(error).replace('callback_base', 'callback-base')}") from None
