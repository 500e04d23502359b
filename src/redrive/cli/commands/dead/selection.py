"""Select dead letters by flow ids or by filters."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options.shared import LARGEST_PAGE
from redrive.cli.output import format_utc
from redrive.cli.store_access import flow_id_of, full_definition_name

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.records import DeadLetter, DeadQuery

StepOption = Annotated[str, typer.Option("--step", metavar="NAME", help="Only flows that failed in this step.")]
KindOption = Annotated[
    str,
    typer.Option("--kind", metavar="KIND", help="Only this kind of failure: exhausted, permanent, poison, workflow..."),
]
ErrorOption = Annotated[
    str, typer.Option("--error", metavar="TYPE", help="Only errors of this type, by its full name: shop.Down.")
]


class Filters(NamedTuple):
    definition: str
    step: str
    kind: str
    error: str
    queue: str

    async def query(self, app: "App") -> "DeadQuery":
        from redrive.flows.flow_end import DeadKind
        from redrive.stores.records import DeadQuery

        kinds = get_args(DeadKind)
        if self.kind and self.kind not in kinds:
            raise BadInput(f"--kind: {self.kind!r} is not a kind of failure; use one of {', '.join(kinds)}")
        return DeadQuery(
            definition=await full_definition_name(app, self.definition),
            step=self.step or None,
            kind=self.kind or None,
            error_type=self.error or None,
            queue=self.queue or None,
        )


class Selection(NamedTuple):
    flow_ids: list[str]
    failed_in_script: frozenset[str]
    """Flows that failed in the text of their script, which a redrive does not change."""


async def select(app: "App", flows: list[str], filters: Filters) -> Selection:
    """Select the flows named, or without any, all that match the filters."""
    if flows:
        letters = await letters_of(app, flows, "dead")
        return Selection([letter.flow_id for letter in letters], frozenset(_failed_in_script(letters)))
    query = replace(await filters.query(app), limit=LARGEST_PAGE)
    # A dict: a flow that dies again meanwhile is listed twice.
    selected: dict[str, None] = {}
    in_script: set[str] = set()
    while page := await app.dead_letters(query):
        selected |= dict.fromkeys(letter.flow_id for letter in page)
        in_script.update(_failed_in_script(page))
        query = replace(query, after=page[-1].cursor)
    return Selection(list(selected), frozenset(in_script))


async def letters_of(app: "App", flows: list[str], state: str | None) -> "list[DeadLetter]":
    """Return the dead letters of these flows; BadInput if one of them has none, or none in this state."""
    from redrive.stores.records import DeadQuery

    flows = list(dict.fromkeys([await flow_id_of(app, flow) for flow in flows]))
    query = DeadQuery(flow_ids=tuple(flows), state=None, limit=len(flows))
    known = {letter.flow_id: letter for letter in await app.dead_letters(query)}
    for flow in flows:
        letter = known.get(flow)
        if letter is None:
            record = await app.find(flow)
            raise BadInput(f"flow {flow} is not a dead letter: it is {record.status}; list dead letters: redrive dead")
        if state is not None and letter.state != state:
            raise BadInput(f"flow {flow} is no longer dead: it was {letter.state} by {letter.by}; nothing was done")
    return [known[flow] for flow in flows]


def replace(query: "DeadQuery", **changes: Any) -> "DeadQuery":
    import msgspec

    return msgspec.structs.replace(query, **changes)


def as_data(letter: "DeadLetter") -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(letter)
    return data | {"at": format_utc(letter.at), "closed_at": format_utc(letter.closed_at)}


def _failed_in_script(letters: "list[DeadLetter]") -> Iterator[str]:
    from redrive.flows.registry import SCRIPT

    return (one.flow_id for one in letters if one.kind == "workflow" and one.definition.startswith(SCRIPT))
