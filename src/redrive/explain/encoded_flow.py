"""Explain a flow whose payloads a codec has encoded, without its key: from the rows that are in clear. Pure."""

from collections.abc import Sequence

from redrive.explain.explanation import Explanation
from redrive.explain.hidden_payloads import hidden_text
from redrive.explain.parts import Advice
from redrive.formatting.text import summarize
from redrive.formatting.times import utc_datetime
from redrive.stores.records import DeadLetter, EventRow, FlowRecord, RetryRow

MOST_STEPS = 5


def explain_encoded(
    record: FlowRecord,
    key: str,
    rows: Sequence[EventRow],
    retries: Sequence[RetryRow],
    dead: DeadLetter | None,
    now: float,
) -> Explanation:
    """key: the id of the key that is needed to say more."""
    told = [record.status, *map(_retry, retries[:MOST_STEPS])]
    if dead is not None:
        what = f"step {dead.step}" if dead.step else "its own code"
        told.append(f"{what} failed ({dead.kind}, {dead.error_type}); its dead letter is {dead.state}")
    size = sum(len(row.body.encode()) for row in rows)
    log = f"its log has {rows[-1].seq} lines, {size} bytes" if rows else "it has no log yet"
    return Explanation(
        flow_id=record.id,
        definition=record.definition,
        status=record.status,
        headline=f"{'; '.join(told)}; {log}, encoded with key {key}, which is not at hand",
        input=hidden_text(record.input),
        queue=record.queue,
        priority=record.priority,
        key=None if record.key is None else summarize(record.key, 100),
        explained_at=utc_datetime(now),
        created_at=utc_datetime(record.created_at),
        start_at=utc_datetime(record.start_at),
        began_at=utc_datetime(rows[0].at) if rows else None,
        finished_at=None if record.finished_at is None else utc_datetime(record.finished_at),
        timeline=[],
        events=[],
        waits_for=[],
        next_steps=[Advice("to read more, set REDRIVE_CODEC_KEYS to keys with which its payloads can be decoded")],
    )


def _retry(row: RetryRow) -> str:
    attempt = f"step {row.step}, attempt {row.attempt_number + 1}"
    if row.status == "dispatched":
        return f"{attempt} runs"
    error = f" after {row.error_type}" if row.error_type else ""
    until = f"{utc_datetime(row.scheduled_at):%Y-%m-%d %H:%M:%S} UTC"
    return f"{attempt} waits for {row.waits_for or 'its time'} until {until}{error}"
