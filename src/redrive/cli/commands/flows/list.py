"""`redrive flows list`: list flows, newest first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options.shared import LARGEST_PAGE, DefinitionOption, LimitOption, QueueOption, StoreOption
from redrive.cli.options.tags import BatchOption, TagOption, read_tags
from redrive.cli.output import JsonOption, format_ago, format_utc, print_json, print_table
from redrive.cli.store_access import full_definition_name, with_app
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.leases import WorkerRecord
    from redrive.stores.records import FlowRecord

COLUMNS = ("flow", "definition", "status", "created", "next", "queue", "key")


def list_command(
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATUS", help="Only flows with this status; repeatable.")
    ] = None,
    definition: DefinitionOption = "",
    queue: QueueOption = "",
    key: Annotated[str, typer.Option(metavar="KEY", help="Only the flow that was started with this key.")] = "",
    parent: Annotated[str, typer.Option(metavar="FLOW", help="Only the children of this flow, by its id.")] = "",
    tag: TagOption = None,
    batch: BatchOption = "",
    limit: LimitOption = 50,
    before: Annotated[str, typer.Option(metavar="FLOW", help="The next page: flows older than this one.")] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """List flows, newest first.

    \b
    redrive flows
    redrive flows --status waiting --status ready --definition Billing --limit 20
    """
    statuses, tags = _check_statuses(status or []), read_tags(tag)

    async def find(app: "App") -> "tuple[list[FlowRecord], list[WorkerRecord]]":
        from redrive.explain.store_reader import live_workers
        from redrive.stores.records import FlowQuery

        flows = await app.flows(
            FlowQuery(
                status=statuses,
                definition=await full_definition_name(app, definition),
                queue=queue or None,
                key=key or None,
                parent=parent or None,
                batch=batch or None,
                tags=tags,
                before=before or None,
                limit=limit + 1,
            )
        )
        return flows, await live_workers(app.store)

    found, workers = with_app(store, find)
    shown, more = found[:limit], len(found) > limit
    if as_json:
        print_json({"flows": [_as_data(flow) for flow in shown], "more": more})
        return
    if not shown:
        typer.echo("No flows match.")
        return
    now = SYSTEM_CLOCK.wall()
    rows = [
        (
            flow.id,
            flow.definition,
            flow.status,
            format_ago(now - flow.created_at),
            _next(flow, workers, now),
            flow.queue,
            _short(flow.key or ""),
        )
        for flow in shown
    ]
    print_table(COLUMNS, rows, whole="flow")
    if more:
        typer.echo(f"... there are more: add --before {shown[-1].id}, or --limit up to {LARGEST_PAGE}", err=True)


def _check_statuses(given: Sequence[str]) -> Any:
    from redrive.stores.records import FlowStatus

    known = get_args(FlowStatus)
    for status in given:
        if status not in known:
            raise BadInput(f"--status: {status!r} is not a valid status; use one of {', '.join(known)}")
    return tuple(given)


def _as_data(flow: "FlowRecord") -> dict[str, Any]:
    """Return a flow without its input, which may hold secrets; `explain` shows a summary."""
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(flow)
    del data["input"]
    for name in ("created_at", "start_at", "wake_at", "finished_at"):
        data[name] = format_utc(data[name])
    return data


def _next(flow: "FlowRecord", workers: "list[WorkerRecord]", now: float) -> str:
    from redrive.explain.worker_eligibility import WorkerEligibility
    from redrive.formatting.times import format_duration

    if flow.finished_at is not None:
        return f"ended {format_ago(now - flow.finished_at)}"
    if flow.status in ("ready", "waiting") and (missing := WorkerEligibility(flow, workers).missing_worker()):
        return f"waits for {missing}"
    if flow.wake_at is not None and flow.status == "waiting":
        left = flow.wake_at - now
        return f"continues in {format_duration(float(round(left)))}" if left > 0 else f"due {format_ago(-left)}"
    return ""


def _short(text: str) -> str:
    from redrive.failures.redaction import redact

    return redact(text, 40)
