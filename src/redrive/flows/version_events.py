"""The event about the version of the code that a flow is pinned to."""

from redrive.flows.event import Event


class VersionChanged(Event, frozen=True):
    """Someone pinned the flow to another version of the code, or unpinned it."""

    version: str = ""
    """Empty: workers of any version may go on with it."""
    by: str = ""
    why: str = ""
