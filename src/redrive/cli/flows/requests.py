"""Send a request to a flow: cancel, pause or resume."""

from typing import TYPE_CHECKING, Any

import typer

from redrive.cli.options import operator, required_reason
from redrive.cli.output import print_json
from redrive.cli.store_access import store_option, with_app

if TYPE_CHECKING:
    from redrive.client.app import App


def send_request(verb: str, flow: str, why: str, by: str, store: str, as_json: bool, **settings: Any) -> None:
    """Leave the request in the flow's inbox, and say whether a live worker can carry it out."""
    reason, name = required_reason(why), operator(by)

    async def send(app: "App") -> str:
        from redrive.explain.store_reader import live_workers
        from redrive.explain.worker_eligibility import WorkerEligibility

        record, handle = await app.find(flow), app.handle(flow)
        eligibility = WorkerEligibility(record, await live_workers(app.store))
        missing = eligibility.missing_actions
        # A forced cancellation, and one of a flow that has not begun, runs none of its code.
        needs_no_code = verb == "cancel" and missing and (settings or not await app.log(flow))
        requests: dict[str, Any] = {"cancel": handle.cancel, "pause": handle.pause, "resume": handle.resume}
        await requests[verb](by=name, why=reason, **settings)
        if eligibility.capable or needs_no_code:
            return "its worker will do so"
        if missing:
            hint = "; only --force works without them" if verb == "cancel" else ""
            return f"but it waits for {eligibility.missing_worker()}, and no live worker does{hint}"
        return (
            f"but no live worker knows {record.definition}, so nothing happens until you start one: "
            "redrive worker MODULE"
        )

    outlook = with_app(store, send)
    if as_json:
        print_json({"id": flow, "requested": verb, "by": name, "why": reason})
    else:
        typer.echo(f"Asked flow {flow} to {verb}; {outlook}; see: redrive explain {flow}{store_option(store)}")
