"""Which flows a worker pins to the version of its code when they begin."""

from redrive.flows.registry import WORKFLOW
from redrive.flows.workflows.workflow import WORKFLOWS


class VersionPins:
    def __init__(self, version: str, all_flows: bool) -> None:
        """version: of this worker's code; empty where it names none, and then nothing is pinned."""
        self._version = version
        self._all_flows = all_flows

    def of(self, definition: str) -> str:
        """The version to pin a flow of this definition to; empty for none."""
        if not self._version or self._all_flows:
            return self._version
        workflow = WORKFLOWS.by_name.get(definition.removeprefix(WORKFLOW)) if definition.startswith(WORKFLOW) else None
        return self._version if workflow is not None and workflow.pinned else ""
