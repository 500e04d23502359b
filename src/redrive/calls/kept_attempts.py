"""The failed attempts of a call that are kept for its report."""

from redrive.policies.report import AttemptRecord

# Unlimited retries must not exhaust memory: beyond this, only the first and the latest attempts are kept.
KEPT_FIRST = 10
KEPT_LATEST = 90


class KeptAttempts:
    """The first and the latest failed attempts."""

    __slots__ = ("_records", "left_out")

    def __init__(self) -> None:
        self._records: list[AttemptRecord] = []
        self.left_out = 0
        """Attempts between those that are not kept."""

    def add(self, record: AttemptRecord) -> None:
        if len(self._records) >= KEPT_FIRST + KEPT_LATEST:
            del self._records[KEPT_FIRST]
            self.left_out += 1
        self._records.append(record)

    @property
    def last(self) -> AttemptRecord | None:
        return self._records[-1] if self._records else None

    def all(self) -> tuple[AttemptRecord, ...]:
        return tuple(self._records)
