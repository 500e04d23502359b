"""`redrive flows cancel`, `pause`, `resume` and `retry`: leave a request in the inbox of a flow."""

import contextlib
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.audit import audited
from redrive.cli.options.shared import (
    FLOW_HELP,
    LARGEST_PAGE,
    ByOption,
    DefinitionOption,
    FlowArgument,
    QueueOption,
    StoreOption,
    WhyOption,
    operator,
    required_reason,
)
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import flow_id_of, full_definition_name, store_option, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def cancel_command(
    flow: FlowArgument,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="End the flow at once: none of its code runs any more, and nothing is compensated. "
            "A flow that no live worker would claim is ended without one.",
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
    _send("cancel", flow, why, by, store, as_json, **({"force": True} if force else {}))


def pause_command(
    flow: FlowArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Pause a flow: it begins no attempt until it is resumed. Running attempts may finish.

    \b
    redrive flows pause 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the bank asked us to'
    """
    _send("pause", flow, why, by, store, as_json)


def resume_command(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help=FLOW_HELP)] = "",
    parked: Annotated[
        bool, typer.Option("--parked", help="All parked flows, or those that --definition and --queue select.")
    ] = False,
    definition: DefinitionOption = "",
    queue: QueueOption = "",
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Resume a paused flow, or a parked one whose code has been fixed; with --parked, all parked flows.

    \b
    redrive flows resume 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the code is fixed'
    redrive flows resume --parked --definition Billing --why 'the deploy is over'
    """
    if flow and (parked or definition or queue):
        raise BadInput("name a flow, or select parked flows with --parked, not both")
    if flow:
        _send("resume", flow, why, by, store, as_json)
    elif parked:
        _resume_parked(definition, queue, why, by, store, as_json)
    else:
        raise BadInput("no flow is given; name one, or add --parked for all parked flows")


def retry_command(
    flow: FlowArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Begin the next attempts of a flow now, instead of when their waits end. No attempt is spent or granted.

    \b
    redrive flows retry 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the bank is back'
    """
    _send("retry", flow, why, by, store, as_json)


def policy_command(
    flow: FlowArgument,
    retry: Annotated[
        str, typer.Option("--retry", metavar="POLICY", help="The new policy, in any notation: 'attempts: 10'.")
    ] = "",
    step: Annotated[str, typer.Option("--step", metavar="NAME", help="Only the work of this step or action.")] = "",
    why: WhyOption = "",
    by: ByOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Give the open work of a flow another retry policy. Its waits between attempts are decided anew under it.

    \b
    redrive flows policy 0197f2a4 --retry '{attempts: 10, max_wait: 30m}' --why 'the bank is down all day'
    """
    if not retry:
        raise BadInput("--retry is missing; give the new policy: --retry 'attempts: 10'")
    from redrive.flows.retry_policy import as_policy

    as_policy(retry)
    _send("policy", flow, why, by, store, as_json, policy=retry, step=step)


def _send(verb: str, flow: str, why: str, by: str, store: str, as_json: bool, **settings: Any) -> None:
    """Leave the request in the flow's inbox, and say whether a live worker can carry it out."""
    reason, name = required_reason(why), operator(by)

    async def send(app: "App") -> tuple[str, str]:
        flow_id = await flow_id_of(app, flow)
        return flow_id, await request(app, flow_id)

    async def request(app: "App", flow_id: str) -> str:
        from redrive.explain.store_reader import live_workers
        from redrive.explain.worker_eligibility import WorkerEligibility

        record, handle = await app.find(flow_id), app.handle(flow_id)
        eligibility = WorkerEligibility(record, await live_workers(app.store))
        missing = eligibility.missing_actions
        # A forced cancellation, and one of a flow that has not begun, runs none of its code.
        needs_no_code = verb == "cancel" and missing and (settings or not await app.log(flow_id))
        requests: dict[str, Any] = {
            "cancel": handle.cancel,
            "pause": handle.pause,
            "resume": handle.resume,
            "retry": handle.retry_now,
            "policy": handle.change_policy,
        }
        async with audited(app, f"flow.{verb}", flow_id, by=name, detail=reason):
            await requests[verb](by=name, why=reason, **settings)
        if verb == "cancel" and settings and (await app.find(flow_id)).status == "cancelled":
            return "it has ended"
        if any(queue.pause for queue in await app.store.list_queues(app.now(), record.queue)):
            resume = f"redrive queues resume {shlex.quote(record.queue)}"
            return f"but its queue is paused, so nothing happens until you resume it: {resume}"
        if eligibility.capable or needs_no_code:
            return "its worker will do so"
        if missing:
            hint = "; only --force works without them" if verb == "cancel" else ""
            return f"but it waits for {eligibility.missing_worker()}, and no live worker does{hint}"
        return (
            f"but no live worker knows {record.definition}, so nothing happens until you start one: "
            "redrive worker MODULE"
        )

    flow_id, outlook = with_app(store, send)
    if as_json:
        print_json({"id": flow_id, "requested": verb, "by": name, "why": reason})
    else:
        asked = "follow the new policy" if verb == "policy" else verb
        typer.echo(f"Asked flow {flow_id} to {asked}; {outlook}; see: redrive explain {flow_id}{store_option(store)}")


def _resume_parked(definition: str, queue: str, why: str, by: str, store: str, as_json: bool) -> None:
    reason, name = required_reason(why), operator(by)

    async def resume(app: "App") -> list[str]:
        from redrive.errors import FlowFinishedError, FlowNotFoundError
        from redrive.stores.records import FlowQuery

        resumed: list[str] = []
        full_name, before = await full_definition_name(app, definition), None
        while page := await app.flows(
            FlowQuery(status=("parked",), definition=full_name, queue=queue or None, before=before, limit=LARGEST_PAGE)
        ):
            for flow in page:
                # It may have been cancelled or pruned meanwhile.
                with contextlib.suppress(FlowFinishedError, FlowNotFoundError):
                    async with audited(app, "flow.resume", flow.id, by=name, detail=reason):
                        await app.handle(flow.id).resume(by=name, why=reason)
                    resumed.append(flow.id)
            before = page[-1].id
            if len(page) == LARGEST_PAGE:
                typer.echo(f"resumed {len(resumed)} so far", err=True)
        return resumed

    resumed = with_app(store, resume)
    if as_json:
        print_json({"ids": resumed, "requested": "resume", "by": name, "why": reason})
    elif resumed:
        from redrive.formatting.text import format_count

        flows = format_count(len(resumed), "parked flow")
        typer.echo(f"Asked {flows} to resume; those that still do not fit park again: redrive flows --status parked")
    else:
        typer.echo("No parked flows match.")
