"""The records of the audit log: who did what, when and from where."""

import msgspec

MOST_AUDIT_ENTRIES = 100_000
"""How many entries the audit log keeps: each new one removes the oldest beyond that."""
LONGEST_AUDIT = 400 * 86_400.0
"""How many seconds it keeps an entry: each new one removes those that are older."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What someone did to keys, the catalogue, queues or flows, over the HTTP API or on the command line."""

    id: int = 0
    """Counts the entries; given by the store."""
    at: float
    actor: str
    """Who: the API key, or the user of the command line, and the name that they gave."""
    origin: str
    """From where: the address of the client, or the machine of the command line."""
    action: str
    """What: "key.add", "flow.cancel", "dead.redrive", ..."""
    target: str
    """To what: a flow, a key, a step, a queue."""
    detail: str = ""
    """The reason given, and other particulars; "refused: ..." where it was not done."""


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of the audit log to list, newest first."""

    action: str | None = None
    target: str | None = None
    """Only entries about it or about a part of it: a flow's id also finds its steps, FLOW/STEP."""
    before: int | None = None
    """The id of the last entry of the previous page."""
    limit: int = 100

    def concerns(self, target: str) -> bool:
        """Whether an entry with this target is wanted."""
        return self.target is None or target == self.target or target.startswith(f"{self.target}/")
