"""`redrive flows cancel`: ask a flow to stop."""

from typing import Annotated

import typer

from redrive.cli.flows.requests import send_request
from redrive.cli.options import ByOption, FlowArgument, StoreOption, WhyOption
from redrive.cli.output import JsonOption


def cancel_command(
    flow: FlowArgument,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="End the flow at once: none of its code runs any more, and nothing is compensated. "
            "This needs a live worker that knows the definition.",
        ),
    ] = False,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Ask a flow to stop: its waits end, running coroutines are cancelled, and its code may clean up.

    \b
    redrive flows cancel 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'ordered twice'
    redrive flows cancel 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --force --why 'its code does not stop'
    """
    send_request("cancel", flow, why, by, store, as_json, **({"force": True} if force else {}))
