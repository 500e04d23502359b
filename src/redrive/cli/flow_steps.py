"""`redrive flows steps`, and what may be done to a step by hand: reset, complete, resolve."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.flows import ago
from redrive.cli.output import JsonOption, print_json, print_table
from redrive.cli.store_use import ByOption, FlowArgument, StoreOption, WhyOption, ask, reason, who
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redrive.client.app import App
    from redrive.client.step_views import StepView

StepArgument = Annotated[str, typer.Argument(metavar="STEP", help="The name of the step, or of the action.")]
IndexOption = Annotated[
    int, typer.Option("--index", min=-1, help="Which of its items, from 0; not needed when one of them is not done.")
]
COLUMNS = ("step", "state", "item", "attempts", "eligible", "ready", "next try", "why")


def steps_command(flow: FlowArgument, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List the steps of a flow with their work items: how often each was tried, and whether it may be tried again.

    \b
    redrive flows steps 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2
    """

    async def listed(app: "App") -> "list[StepView]":
        return await app.steps_of(flow)

    steps = ask(store, listed)
    if as_json:
        print_json(msgspec.to_builtins(steps))
        return
    if not steps:
        typer.echo("it has no steps yet")
        return
    print_table(COLUMNS, _rows(steps, SYSTEM_CLOCK.wall()))


def _rows(steps: "list[StepView]", now: float) -> "Iterator[tuple[str, ...]]":
    for step in steps:
        if not step.items:
            yield (step.name, step.state, "", "", "", "", "", step.why or "")
        for item in step.items:
            most = "" if item.max_attempts is None else f" of {item.max_attempts}"
            following = "" if item.next_retry_at is None else _until(item.next_retry_at - now)
            yield (
                step.name,
                item.state,
                str(item.index),
                f"{item.attempts}{most}",
                "yes" if item.retry_eligible else "no",
                "yes" if item.ready else "no",
                following,
                item.error or item.reason,
            )


def _until(seconds: float) -> str:
    return "now" if seconds <= 0 else f"in {ago(seconds).removesuffix(' ago')}"


def reset_command(
    flow: FlowArgument,
    step: StepArgument,
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
) -> None:
    """Try a step again that waits or has failed, now and with a fresh allowance; the flow goes on from there.

    \b
    redrive flows reset 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 charge --why 'the bank is back'
    """
    _by_hand("reset", flow, step, index, why, by, store)


def complete_command(
    flow: FlowArgument,
    step: StepArgument,
    text: Annotated[str, typer.Option("--outputs", metavar="JSON", help="What the step would have given.")],
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
) -> None:
    """Complete a step by hand, with what it would have given.

    \b
    redrive flows complete 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 charge --outputs '{"payment": "cash"}' --why paid
    """
    try:
        outputs = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadInput(f"--outputs is no JSON: {error}; write --outputs '{{\"name\": ...}}'") from None
    _by_hand("complete", flow, step, index, why, by, store, outputs)


def resolve_command(
    flow: FlowArgument,
    step: StepArgument,
    index: IndexOption = -1,
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
) -> None:
    """Settle a step by hand, without outputs: what depends on it goes on, what needs its outputs is skipped.

    \b
    redrive flows resolve 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 mail --why 'called them'
    """
    _by_hand("resolve", flow, step, index, why, by, store)


def _by_hand(verb: str, flow: str, step: str, index: int, why: str, by: str, store: str, *outputs: Any) -> None:
    said, name = reason(why), who(by)

    async def settle(app: "App") -> None:
        from redrive.errors import FlowFinishedError, InvalidStateError, UnknownStepError

        tell: Any = getattr(app, f"{verb}_step")
        try:
            await tell(flow, step, *outputs, index=None if index < 0 else index, by=name, why=said)
        except (UnknownStepError, InvalidStateError, FlowFinishedError, ValueError) as error:
            raise BadInput(str(error)) from None

    ask(store, settle)
    typer.echo(f"told flow {flow} to {verb} {step}")
