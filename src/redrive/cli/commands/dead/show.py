"""`redrive dead show`: show one dead letter."""

from typing import TYPE_CHECKING

from redrive.cli.commands.dead.selection import as_data, letters_of
from redrive.cli.commands.explain import AllOption, print_explanation
from redrive.cli.options.shared import FlowArgument, StoreOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import with_app

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.explain.explanation import Explanation
    from redrive.stores.records import DeadLetter


def show_command(
    flow: FlowArgument, everything: AllOption = False, store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Show a dead letter: the flow's input, every attempt, why it gave up, and what to do.

    \b
    redrive dead show 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2
    """
    import msgspec

    async def find(app: "App") -> "tuple[DeadLetter, Explanation]":
        (letter,) = await letters_of(app, [flow], None)
        return letter, await app.explain(letter.flow_id)

    letter, explanation = with_app(store, find)
    if as_json:
        print_json({"dead_letter": as_data(letter), "explanation": msgspec.to_builtins(explanation)})
    else:
        print_explanation(explanation, store, everything)
