"""`redrive dead`: what failed for good, and what becomes of it."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.explain import AllOption, print_explanation
from redrive.cli.flows import MOST, DefinitionOption, LimitOption, QueueOption, ago, as_utc, full_name
from redrive.cli.output import JsonOption, print_json, print_table
from redrive.cli.store_use import ByOption, FlowArgument, StoreOption, WhyOption, ask, reason, who
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.explain.explanation import Explanation
    from redrive.stores.records import DeadLetter, DeadQuery

STATES = ("dead", "redriven", "discarded", "any")

StepOption = Annotated[str, typer.Option("--step", metavar="NAME", help="Those whose failed step is this action.")]
KindOption = Annotated[
    str,
    typer.Option("--kind", metavar="KIND", help="Those that failed so: exhausted, permanent, poison, workflow..."),
]
ErrorOption = Annotated[
    str, typer.Option("--error", metavar="TYPE", help="Those with an error of this type, by its full name: shop.Down.")
]
FlowsArgument = Annotated[list[str] | None, typer.Argument(metavar="[FLOW]...", help="The ids of flows.")]
EveryOption = Annotated[bool, typer.Option("--all", help="All that are dead.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def list_command(
    definition: DefinitionOption = "",
    step: StepOption = "",
    kind: KindOption = "",
    error: ErrorOption = "",
    queue: QueueOption = "",
    state: Annotated[str, typer.Option(metavar="STATE", help=f"One of {', '.join(STATES)}.")] = "dead",
    limit: LimitOption = 50,
    after: Annotated[str, typer.Option(metavar="FLOW", help="The page after the one that ends with it.")] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List dead letters, oldest first.

    \b
    redrive dead
    redrive dead --definition Billing --step charge --kind exhausted
    """
    if state not in STATES:
        raise BadInput(f"--state: {state!r} is none; use one of {', '.join(STATES)}")

    async def listed(app: "App") -> "list[DeadLetter]":
        query = await _query(app, definition, step, kind, error, queue)
        last = (await _letters(app, [after], None))[0].cursor if after else None
        return await app.dead_letters(
            _changed(query, state=None if state == "any" else state, after=last, limit=limit + 1)
        )

    found = ask(store, listed)
    shown, more = found[:limit], len(found) > limit
    if as_json:
        print_json({"dead_letters": [_as_data(letter) for letter in shown], "more": more})
        return
    if not shown:
        typer.echo("no such dead letters")
        return
    now = SYSTEM_CLOCK.wall()
    columns: tuple[str, ...] = ("flow", "definition", "step", "kind", "attempts", "error", "died")
    rows: list[tuple[str, ...]] = [
        (
            letter.flow_id,
            letter.definition,
            letter.step,
            letter.kind,
            str(letter.attempts),
            _short(f"{letter.error_type}: {letter.message}"),
            ago(now - letter.at),
        )
        for letter in shown
    ]
    if state == "any":
        columns += ("state",)
        rows = [(*row, letter.state) for row, letter in zip(rows, shown, strict=True)]
    print_table(columns, rows, whole="flow")
    if more:
        typer.echo(f"... there are more: add --after {shown[-1].flow_id}, or --limit up to {MOST}", err=True)


def show_command(
    flow: FlowArgument, everything: AllOption = False, store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Show a dead letter: what it was started with, every attempt, why it gave up, and what to do.

    \b
    redrive dead show 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2
    """
    import msgspec

    async def shown(app: "App") -> "tuple[DeadLetter, Explanation]":
        return (await _letters(app, [flow], None))[0], await app.explain(flow)

    letter, explanation = ask(store, shown)
    if as_json:
        print_json({"dead_letter": _as_data(letter), "explanation": msgspec.to_builtins(explanation)})
    else:
        print_explanation(explanation, store, everything)


def redrive_command(
    flows: FlowsArgument = None,
    definition: DefinitionOption = "",
    step: StepOption = "",
    kind: KindOption = "",
    error: ErrorOption = "",
    queue: QueueOption = "",
    every: EveryOption = False,
    why: WhyOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Put dead flows back to work, each at the step that failed: some by their ids, by filters, or all.

    \b
    redrive dead redrive 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the bank is back'
    redrive dead redrive --step charge --error ConnectionError --why 'the bank is back' --yes
    """
    filters = (definition, step, kind, error, queue)
    _settle("redrive", flows or [], filters, every, why, by, yes, store, as_json)


def discard_command(
    flows: FlowsArgument = None,
    definition: DefinitionOption = "",
    step: StepOption = "",
    kind: KindOption = "",
    error: ErrorOption = "",
    queue: QueueOption = "",
    every: EveryOption = False,
    why: WhyOption = "",
    by: ByOption = "",
    yes: YesOption = False,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Settle dead flows for good: they stay failed, and are no longer dead letters to look at.

    \b
    redrive dead discard 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'ordered twice'
    redrive dead discard --all --definition Newsletter --why 'too late for it now'
    """
    filters = (definition, step, kind, error, queue)
    _settle("discard", flows or [], filters, every, why, by, yes, store, as_json)


def _settle(
    what: str,
    flows: list[str],
    filters: tuple[str, str, str, str, str],
    every: bool,
    why: str,
    by: str,
    yes: bool,
    store: str,
    as_json: bool,
) -> None:
    said, name = reason(why), who(by)
    if flows and (every or any(filters)):
        raise BadInput("name flows, or choose them by filters or --all, not both")
    if not flows and not every and not any(filters):
        raise BadInput("which ones? name flows, choose them by filters such as --step charge, or add --all")
    chosen, hopeless = ask(store, lambda app: _chosen(app, flows, filters))
    if not flows and chosen and not yes:
        _confirm(what, len(chosen))

    from redrive.client.dead_letters import close_in_parts  # loaded here: `redrive --help` is quick

    async def settle(app: "App") -> list[str]:
        verb = app.redrive if what == "redrive" else app.discard
        return await close_in_parts(verb, chosen, by=name, why=said)

    settled = ask(store, settle) if chosen else []
    if as_json:
        print_json({"settled": settled, "how": what, "by": name, "why": said})
        return
    done = "put back to work" if what == "redrive" else "discarded"
    others = len(chosen) - len(settled)
    left = "were settled by someone else meanwhile, or were compensated and cannot go on"
    meanwhile = f"; {others} {left}" if others else ""
    typer.echo(f"{done}: {_count(len(settled))}{meanwhile}")
    again = sorted(hopeless & {*settled}) if what == "redrive" else []
    if again:
        named = f"flow {again[0]}" if len(again) == 1 else f"{len(again)} of them, such as flow {again[0]},"
        typer.echo(
            f"{named} failed in the script's own text, keeps that text, and will fail there again: "
            "correct the file, and start another",
            err=True,
        )


def _confirm(what: str, number: int) -> None:
    question = f"{'put back to work' if what == 'redrive' else 'discard'} {_count(number)}?"
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadInput(f"{question} nothing was done, since nobody can be asked here; add --yes")
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadInput("stopped; nothing was done")


async def _chosen(
    app: "App", flows: list[str], filters: tuple[str, str, str, str, str]
) -> tuple[list[str], frozenset[str]]:
    """The flows, and those among them that failed in the text of their script."""
    if flows:
        letters = await _letters(app, flows, "dead")
        return [letter.flow_id for letter in letters], frozenset(_of_their_text(letters))
    query = _changed(await _query(app, *filters), limit=MOST)
    # By flow: one that dies again meanwhile comes twice.
    chosen: dict[str, None] = {}
    hopeless: set[str] = set()
    while page := await app.dead_letters(query):
        chosen |= dict.fromkeys(letter.flow_id for letter in page)
        hopeless.update(_of_their_text(page))
        query = _changed(query, after=page[-1].cursor)
    return list(chosen), frozenset(hopeless)


def _of_their_text(letters: "list[DeadLetter]") -> Iterator[str]:
    from redrive.flows.registry import SCRIPT

    return (one.flow_id for one in letters if one.kind == "workflow" and one.definition.startswith(SCRIPT))


async def _letters(app: "App", flows: list[str], state: str | None) -> "list[DeadLetter]":
    """The dead letters of these flows; BadInput when one of them has none."""
    from redrive.stores.records import DeadQuery

    query = DeadQuery(flow_ids=tuple(dict.fromkeys(flows)), state=None, limit=len(flows))
    known = {letter.flow_id: letter for letter in await app.dead_letters(query)}
    for flow in flows:
        letter = known.get(flow)
        if letter is None:
            record = await app.find(flow)
            raise BadInput(f"flow {flow} is no dead letter, it is {record.status}; list them with: redrive dead")
        if state is not None and letter.state != state:
            raise BadInput(f"flow {flow} is no longer dead: it was {letter.state} by {letter.by}; nothing was done")
    return [known[flow] for flow in dict.fromkeys(flows)]


async def _query(app: "App", definition: str, step: str, kind: str, error: str, queue: str) -> "DeadQuery":
    from redrive.flows.flow_end import DeadKind
    from redrive.stores.records import DeadQuery

    if kind and kind not in get_args(DeadKind):
        raise BadInput(f"--kind: {kind!r} is none; use one of {', '.join(get_args(DeadKind))}")
    return DeadQuery(
        definition=await full_name(app, definition),
        step=step or None,
        kind=kind or None,
        error_type=error or None,
        queue=queue or None,
    )


def _changed(query: "DeadQuery", **changes: Any) -> "DeadQuery":
    import msgspec

    return msgspec.structs.replace(query, **changes)


def _as_data(letter: "DeadLetter") -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(letter)
    return data | {"at": as_utc(letter.at), "closed_at": as_utc(letter.closed_at)}


def _count(number: int) -> str:
    return "1 dead flow" if number == 1 else f"{number} dead flows"


def _short(text: str) -> str:
    from redrive.failures.redaction import redact

    return redact(text, 80)
