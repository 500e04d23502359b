"""`redrive flows pause`: let a flow begin no more attempts."""

from redrive.cli.flows.requests import send_request
from redrive.cli.options import ByOption, FlowArgument, StoreOption, WhyOption
from redrive.cli.output import JsonOption


def pause_command(
    flow: FlowArgument, why: WhyOption = "", by: ByOption = "", store: StoreOption = "", as_json: JsonOption = False
) -> None:
    """Pause a flow: it begins no attempt until it is resumed. Running attempts may finish.

    \b
    redrive flows pause 0197f2a4-6c1e-7b3a-9d55-0c8f4be0a1d2 --why 'the bank asked us to'
    """
    send_request("pause", flow, why, by, store, as_json)
