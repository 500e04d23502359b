"""A claim as one statement: checks the lease, finds due and ready flows, takes some, and tells when to claim again."""

from redrive.stores.postgres.columns import FLOW, selected

MAX_DUE = 500
"""How many due flows of a partition one claim looks at."""

# Flows with a concurrency key are in lines of their own; see `claim_in_turns`.
READY = "status = 'ready' AND concurrency_key IS NULL"

# All partitions (queue and definition, with the version that flows are pinned to) with such flows, found by jumping
# from one to the next in the index.
# from one to the next in the index.
PARTITIONS = """
{name}_partitions (queue, definition) AS (
    (SELECT queue, pool FROM flows WHERE {of} ORDER BY queue, pool LIMIT 1)
    UNION ALL
    SELECT following.queue, following.pool FROM {name}_partitions AS p CROSS JOIN LATERAL (
        SELECT f.queue, f.pool FROM flows AS f
        WHERE {of} AND (f.queue, f.pool) > (p.queue, p.definition)
        ORDER BY f.queue, f.pool LIMIT 1
    ) AS following
),
{name}_wanted AS (
    SELECT p.queue, p.definition FROM {name}_partitions AS p
    WHERE p.definition = ANY ({definitions}::text[]) AND ({queues}::text[] IS NULL OR p.queue = ANY ({queues}))
        AND NOT EXISTS (SELECT FROM queue_pauses AS q WHERE q.name = p.queue) {also}
)"""


def _partitions(name: str, of: str) -> str:
    return PARTITIONS.format(name=name, of=of, definitions="$2", queues="$3", also="AND EXISTS (SELECT FROM lease)")


# Ready flows are first counted without locks, then that many of each partition are locked with SKIP LOCKED. So
# concurrent claims take different flows, and no claim locks a flow that it does not take.
# Due flows that are not taken become ready, so that the next claim finds them in order of priority.
# If candidates are in queues with settings, or flows have concurrency keys, nothing is taken: see `claim_in_turns`.
# The lease is locked only when there are flows to take, so a claim that finds nothing writes nothing, not even a lock.
CLAIM = f"""
WITH RECURSIVE lease AS MATERIALIZED (
    SELECT epoch FROM workers WHERE epoch = $1 AND expires_at > now() AND claim_floor <= $6
),
{_partitions("ready", READY)},
{_partitions("waiting", "status = 'waiting'")},
{_partitions("keyed", "status = 'ready' AND concurrency_key IS NOT NULL")},
due AS MATERIALIZED (
    SELECT f.id, f.queue, f.pool AS definition, f.priority, f.wake_at, f.concurrency_key
    FROM waiting_wanted AS w CROSS JOIN LATERAL (
        SELECT * FROM flows
        WHERE status = 'waiting' AND queue = w.queue AND pool = w.definition AND wake_at <= to_timestamp($5)
        ORDER BY wake_at LIMIT {MAX_DUE} FOR UPDATE SKIP LOCKED
    ) AS f
),
candidates AS (
    SELECT id, queue, definition, priority, wake_at FROM due
    UNION ALL
    SELECT NULL, w.queue, w.definition, f.priority, f.wake_at FROM ready_wanted AS w CROSS JOIN LATERAL (
        SELECT priority, wake_at FROM flows
        WHERE {READY} AND queue = w.queue AND pool = w.definition
        ORDER BY priority DESC, wake_at LIMIT $4
    ) AS f
),
limited AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM candidates JOIN queue_limits ON queue_limits.name = candidates.queue)
        OR EXISTS (SELECT FROM due WHERE concurrency_key IS NOT NULL)
        OR EXISTS (SELECT FROM keyed_wanted) AS found
),
picked AS MATERIALIZED (
    SELECT id, queue, definition FROM candidates WHERE NOT (SELECT found FROM limited)
    ORDER BY priority DESC, wake_at LIMIT $4
),
holder AS MATERIALIZED (
    SELECT epoch FROM workers
    WHERE epoch = $1 AND expires_at > now() AND claim_floor <= $6 AND EXISTS (SELECT FROM picked) FOR KEY SHARE
),
taken AS MATERIALIZED (
    SELECT id FROM picked, holder WHERE id IS NOT NULL
    UNION ALL
    SELECT f.id FROM holder, (
        SELECT queue, definition, count(*) AS number FROM picked WHERE id IS NULL GROUP BY queue, definition
    ) AS p CROSS JOIN LATERAL (
        SELECT id FROM flows WHERE {READY} AND queue = p.queue AND pool = p.definition
        ORDER BY priority DESC, wake_at LIMIT p.number FOR UPDATE SKIP LOCKED
    ) AS f
),
claimed AS (
    UPDATE flows SET status = 'running', owner = $1, claims = claims + 1, claim_number = $6
    WHERE id IN (SELECT id FROM taken)
    RETURNING *
),
promoted AS (
    UPDATE flows SET status = 'ready' WHERE id IN (SELECT id FROM due EXCEPT SELECT id FROM taken)
)
SELECT
    {selected(FLOW, "claimed")},
    (
        SELECT extract(epoch FROM min(f.wake_at))::float8 FROM waiting_wanted AS w CROSS JOIN LATERAL (
            SELECT wake_at FROM flows
            WHERE status = 'waiting' AND queue = w.queue AND pool = w.definition AND wake_at > to_timestamp($5)
                AND wake_at < 'infinity'
            ORDER BY wake_at LIMIT 1
        ) AS f
    ) AS next_wake,
    (SELECT count(*) FROM picked) >= $4 OR (SELECT count(*) FROM due) >= {MAX_DUE} AS more,
    (SELECT found FROM limited) AS limited,
    ARRAY(SELECT name FROM queue_pauses) AS paused
FROM lease LEFT JOIN claimed ON true
WHERE EXISTS (SELECT FROM holder) OR NOT EXISTS (SELECT FROM picked)
ORDER BY claimed.priority DESC, claimed.wake_at, claimed.id
"""  # noqa: S608 - all values are parameters

# Waits for a claim that is running, and rejects one that has yet to arrive.
RAISE_CLAIM_FLOOR = """
WITH worker AS MATERIALIZED (SELECT epoch FROM workers WHERE epoch = $1 AND expires_at > now() FOR UPDATE)
UPDATE workers SET claim_floor = $2 FROM worker WHERE workers.epoch = worker.epoch RETURNING workers.epoch
"""

CLAIMED_BY = f"""
SELECT {selected(FLOW, "flows")} FROM flows WHERE owner = $1 AND claim_number = ANY ($2::bigint[])
ORDER BY priority DESC, flows.wake_at, id
"""  # noqa: S608 - all values are parameters
