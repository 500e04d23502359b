"""Options and arguments that several commands share, and how they are read."""

import getpass
from typing import Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.store_access import DEFAULT_STORE, STORE_VARIABLE

LARGEST_PAGE = 1000
LARGEST_PORT = 65535
LOG_LEVELS = ("debug", "info", "warning", "error")

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"The store: sqlite:///file.db or postgresql://...; default: ${STORE_VARIABLE}, or {DEFAULT_STORE}.",
    ),
]
FLOW_HELP = "The flow: its id, the first characters of its id, or its key."
FlowArgument = Annotated[str, typer.Argument(metavar="FLOW", help=FLOW_HELP)]
ByOption = Annotated[str, typer.Option("--by", metavar="NAME", help="Who does this; default: your login name.")]
WhyOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; it is kept in the flow's log.")]
DefinitionOption = Annotated[
    str,
    typer.Option(
        "--definition", metavar="NAME", help="Only this definition: Billing, or workflow:Billing, action:charge."
    ),
]
QueueOption = Annotated[str, typer.Option("--queue", metavar="NAME", help="Only this queue.")]
LimitOption = Annotated[int, typer.Option(min=1, max=LARGEST_PAGE, help="List at most this many.")]
LogLevelOption = Annotated[str, typer.Option("--log-level", help=f"One of {', '.join(LOG_LEVELS)}.")]
HealthOption = Annotated[
    str,
    typer.Option(
        "--health",
        metavar="[HOST:]PORT",
        help="Serve /healthz, /readyz and /metrics here; without a host, for this machine only.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Start at most one flow with this key: the same input returns that flow, another input is refused.",
    ),
]
FunctionOption = Annotated[
    str, typer.Option("--function", metavar="NAME", help="For a script: the function to run; default: main.")
]


def operator(by: str) -> str:
    """Return the name given with --by, or the login name."""
    if by:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may have no name for its user.
        return "unknown"


def required_reason(why: str) -> str:
    if not why.strip():
        raise BadInput("--why is missing; give a reason, for whoever reads the log later")
    return why


def check_log_level(level: str) -> None:
    if level not in LOG_LEVELS:
        raise BadInput(f"--log-level: {level!r} is not a log level; use one of {', '.join(LOG_LEVELS)}")


def read_health(text: str) -> tuple[str, int] | None:
    """Return the address to serve health at; None where none is given."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not port.isascii() or not port.isdigit() or int(port) > LARGEST_PORT or (":" in text and not host):
        raise BadInput(f"--health: {text!r} is not an address; use a port such as 9090, or HOST:PORT")
    return host or "127.0.0.1", int(port)


def read_seconds(option: str, text: str) -> float:
    from redrive.errors import DurationError
    from redrive.failures.duration import read_duration

    try:
        return read_duration(text)
    except DurationError as error:
        raise BadInput(f"{option}: {error}") from None
