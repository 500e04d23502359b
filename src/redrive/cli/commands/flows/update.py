"""`redrive update`: change a running flow and get its answer."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.commands.flows.signal import ArgumentsArgument, read_arguments
from redrive.cli.exit_codes import FAILED, TIMED_OUT
from redrive.cli.options.shared import ByOption, FlowArgument, StoreOption, operator, read_seconds
from redrive.cli.output import JsonOption
from redrive.cli.store_access import flow_id_of, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def update_command(
    flow: FlowArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the update.")],
    arguments: ArgumentsArgument = None,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Wait this long for the answer.")] = "30s",
    update_id: Annotated[
        str,
        typer.Option("--id", metavar="ID", help="An update of the same id takes effect once, and is answered again."),
    ] = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> int:
    """Send an update to a flow and print its answer, always as JSON. A worker has to run the flow.

    Exit code 1: the update failed; 2: it was refused; 124: it was not answered in time, and may still take effect.

    \b
    redrive update 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 set_street street="Elm 1" --timeout 10s
    """
    given, sender, seconds = read_arguments(arguments or []), operator(by), read_seconds("--timeout", timeout)

    async def send(app: "App") -> int:
        import msgspec

        from redrive.errors import (
            FlowFinishedError,
            FlowNotFoundError,
            SignalRefusedError,
            StoreError,
            UpdateTimeoutError,
        )
        from redrive.formatting.text import terminal_json, terminal_text

        flow_id = await flow_id_of(app, flow)
        settings: dict[str, Any] = {"timeout": seconds, "update_id": update_id or None, "by": sender}
        try:
            async with audited(app, "flow.update", flow_id, by=sender, detail=name):
                answer = await app.update(flow_id, name, given, **settings)
        except UpdateTimeoutError as error:
            typer.echo(f"redrive: {error}", err=True)
            return TIMED_OUT
        except (StoreError, FlowFinishedError, FlowNotFoundError):
            raise
        except SignalRefusedError as error:
            raise BadInput(str(error)) from None
        except Exception as error:  # noqa: BLE001 - what the workflow's code raised
            typer.echo(f"redrive: the update failed: {type(error).__name__}: {terminal_text(str(error))}", err=True)
            return FAILED
        typer.echo(terminal_json(msgspec.json.encode(answer).decode()))
        return 0

    return with_app(store, send)
