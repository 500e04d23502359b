"""Adds the flow, the step and the attempt to the log lines of your own code.

import logging
from redrive.integrations.logging import FlowContext

for handler in logging.getLogger().handlers:
    handler.addFilter(FlowContext())
"""

from redrive.runners.flow_context import FlowContext

__all__ = ["FlowContext"]
