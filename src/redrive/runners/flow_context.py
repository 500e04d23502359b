"""The log filter that adds the flow, the step and the attempt to the lines of actions and workflows."""

import logging

from redrive.flows.workflows.loop import running_flow_loop
from redrive.runners.attempt import attempt_here
from redrive.telemetry.logs import place


class FlowContext(logging.Filter):
    """A filter for handlers. Lines logged by an action or a workflow name their flow, in the text and as fields.

    The fields are `flow_id`, `step` and `attempt`. Lines that have them already, as redrive's own do, stay as they are.
    """

    def __init__(self, *, in_text: bool = True) -> None:
        """in_text=False: add the fields only, for structured loggers."""
        super().__init__()
        self._in_text = in_text

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(record, "flow_id"):
            return True
        step, number = "", None
        if (loop := running_flow_loop()) is not None:
            flow_id = loop.flow_id
        elif (attempt := attempt_here()) is not None:
            flow_id, step, number = attempt.flow_id, attempt.step, attempt.number
            record.step, record.attempt = step, number
        else:
            return True
        record.flow_id = flow_id
        if self._in_text:
            # Formatted now: a message with arguments may itself hold a percent sign.
            record.msg, record.args = f"{place(flow_id, step, number)}: {record.getMessage()}", None
        return True
