"""`redrive query`: ask a flow something."""

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.flows.signal import ArgumentsArgument, read_arguments
from redrive.cli.options.shared import FlowArgument, StoreOption
from redrive.cli.output import JsonOption
from redrive.cli.store_access import flow_id_of, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def query_command(
    flow: FlowArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the query.")],
    arguments: ArgumentsArgument = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="A module that defines the flow's workflow; repeatable."),
    ] = None,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Ask a flow something and print the answer, always as JSON. The flow is not changed, and may have ended.

    This command answers, by replaying the flow's log, so it needs the workflow's code.

    \b
    redrive query 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 status --import shop.flows
    """
    from redrive.cli.definitions.named import load

    given = read_arguments(arguments or [])
    if imports:
        load(imports)

    async def ask(app: "App") -> str:
        import msgspec

        from redrive.errors import RedriveError, UnknownDefinitionError, WorkflowCodeError
        from redrive.formatting.text import terminal_json

        flow_id = await flow_id_of(app, flow)
        try:
            return terminal_json(msgspec.json.encode(await app.query(flow_id, name, given)).decode())
        except UnknownDefinitionError as error:
            raise BadInput(f"no {error.kind} is named {error.name!r} here; its code answers: --import MODULE") from None
        except (WorkflowCodeError, LookupError, TypeError, ValueError) as error:
            raise BadInput(str(error)) from None
        except RedriveError:
            raise
        except Exception as error:  # noqa: BLE001 - the workflow's own code raised it
            raise BadInput(f"the query {name!r} raised {type(error).__name__}: {error}") from None

    typer.echo(with_app(store, ask))
