"""What steps over HTTP may call, and where they call back."""

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
        help='What steps may call though it is not public: 10.1.0.0/16, a host name, or "private" for all.',
    ),
]
CallbackOption = Annotated[
    str,
    typer.Option(
        "--callback-base",
        metavar="URL",
        help="Where the outside reaches the server: asynchronous steps call back there.",
    ),
]


def http_settings(allow: Sequence[str] | None, callback_base: str) -> "HttpSettings":
    from redrive.runners.http.settings import HttpSettings

    try:
        return HttpSettings(allow=tuple(allow or ()), callback_base=callback_base or None)
    except ValueError as error:
        raise BadInput(f"--{str(error).replace('callback_base', 'callback-base')}") from None
