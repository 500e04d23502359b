"""The statements of the other verbs, by name. The connection's search path determines the schema."""

from redrive.stores.postgres.columns import EVENT, FLOW, HEARTBEAT, MESSAGE, named, selected
from redrive.stores.queues import SETTINGS

# ruff: noqa: S608 - all values are parameters

ACQUIRE_LEASE = """
INSERT INTO workers (name, definitions, queues, joined_at, expires_at, version)
VALUES ($1, $2, $3, now(), now() + $4::float8 * interval '1 second', $5) RETURNING epoch
"""

EXTEND_LEASE = """
UPDATE workers SET expires_at = now() + $2::float8 * interval '1 second'
WHERE epoch = $1 AND expires_at > now() RETURNING 1
"""

UPDATE_DEFINITIONS = "UPDATE workers SET definitions = $2 WHERE epoch = $1 AND definitions <> $2"

ACCUSE = "UPDATE workers SET suspect = $2, blame = $3 WHERE epoch = $1"

# The worker's report goes with it.
RELEASE_LEASE = """
WITH report_gone AS (DELETE FROM worker_reports WHERE epoch = $1)
DELETE FROM workers WHERE epoch = $1 RETURNING epoch, name, suspect, blame
"""

ANY_EXPIRED = "SELECT EXISTS (SELECT FROM workers WHERE expires_at <= now())"
REAP_LEASES = """
WITH ended AS (DELETE FROM workers WHERE expires_at <= now() RETURNING epoch, name, suspect, blame),
reports_gone AS (DELETE FROM worker_reports WHERE epoch IN (SELECT epoch FROM ended))
SELECT epoch, name, suspect, blame FROM ended
"""

# A statement of its own, after the lease has ended: only then does it see everything that was claimed under it.
RELEASE_FLOWS = """
WITH orphaned AS MATERIALIZED (
    SELECT id, owner FROM flows WHERE owner = ANY ($1::bigint[]) FOR UPDATE
), released AS (
    UPDATE flows SET
        status = 'ready',
        owner = NULL,
        lost_owners = lost_owners + CASE WHEN ended.suspect IS NULL OR ended.suspect = flows.id THEN $3 ELSE 0 END,
        blame = CASE WHEN $3 > 0 AND ended.suspect = flows.id THEN ended.blame ELSE flows.blame END
    FROM orphaned JOIN unnest($1::bigint[], $4::text[], $5::text[]) AS ended (epoch, suspect, blame)
        ON ended.epoch = orphaned.owner
    WHERE flows.id = orphaned.id
    RETURNING orphaned.owner
)
SELECT owner, count(*) AS flows, (SELECT count(pg_notify($2, '')) FROM (SELECT FROM released LIMIT 1) AS one)
FROM released GROUP BY owner
"""

# One row if the lease is valid, with a flow or without one; the lock keeps it from ending meanwhile.
TAKE_FLOW = f"""
WITH lease AS MATERIALIZED (SELECT epoch FROM workers WHERE epoch = $1 AND expires_at > now() FOR KEY SHARE),
taken AS (
    UPDATE flows SET
        status = 'running', owner = lease.epoch, claims = claims + 1, wake_at = coalesce(wake_at, created_at)
    FROM lease
    WHERE id = $2 AND flows.owner IS NULL AND flows.finished_at IS NULL RETURNING flows.*
)
SELECT {selected(FLOW, "taken")} FROM lease LEFT JOIN taken ON true
"""

LAST_BATCH = "SELECT last_batch, commit_fence FROM workers WHERE epoch = $1 FOR SHARE"

# Waits for a commit that is running, and rejects one that has yet to arrive.
FENCE_AND_LAST_BATCH = """
UPDATE workers SET commit_fence = commit_fence + 1 WHERE epoch = $1 RETURNING last_batch, commit_fence
"""

HAS_EVENT = "SELECT EXISTS (SELECT FROM events WHERE flow_id = $1 AND seq = $2)"

LIST_WORKERS = """
SELECT w.epoch, w.name, w.definitions, w.queues, w.version,
    extract(epoch FROM w.joined_at)::float8 AS joined_at, extract(epoch FROM w.expires_at)::float8 AS expires_at,
    w.expires_at > now() AS alive, coalesce(o.flows, 0) AS flows
FROM workers AS w
LEFT JOIN (SELECT owner, count(*) AS flows FROM flows WHERE owner IS NOT NULL GROUP BY owner) AS o ON o.owner = w.epoch
ORDER BY w.epoch
"""

READ_EVENTS = f"""
SELECT {selected(EVENT, "events")}
FROM (
    SELECT given.id, coalesce(flows.run_from, 0) AS run_from
    FROM unnest($1::text[]) AS given (id) LEFT JOIN flows ON flows.id = given.id
) AS wanted
CROSS JOIN LATERAL (SELECT * FROM events WHERE flow_id = wanted.id AND seq > wanted.run_from) AS events
ORDER BY flow_id, seq
"""

READ_EVENTS_AFTER = f"""
SELECT {selected(EVENT, "events")} FROM events WHERE flow_id = $1 AND seq > $2::bigint ORDER BY seq LIMIT $3
"""

READ_HEARTBEATS = f"SELECT {selected(HEARTBEAT, 'heartbeats')} FROM heartbeats WHERE flow_id = ANY ($1::text[])"

FIND_FLOWS = f"SELECT {selected(FLOW, 'flows')} FROM flows WHERE id = ANY ($1::text[])"

MAX_EVENTS_PRUNED = 50_000
"""After how many events one transaction stops to remove flows; the flow that reaches it is removed whole."""

# An array instead of a join, which may be planned as a scan of all logs.
PRUNE = f"""
WITH old AS MATERIALIZED (
    SELECT id, finished_at FROM flows
    WHERE finished_at < to_timestamp($1) AND status IN ('completed', 'failed', 'cancelled')
        AND NOT EXISTS (SELECT FROM dead_letters WHERE flow_id = id AND state = 'dead')
    ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED
),
measured AS (
    SELECT id, sum(events) OVER (
        ORDER BY finished_at, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS events_before
    FROM (SELECT id, finished_at, (SELECT max(seq) FROM events WHERE flow_id = id) AS events FROM old) AS logs
),
pruned AS MATERIALIZED (
    SELECT array_agg(id) AS ids FROM measured WHERE coalesce(events_before, 0) < {MAX_EVENTS_PRUNED}
),
events_gone AS (DELETE FROM events WHERE flow_id = ANY ((SELECT ids FROM pruned)::text[])),
retries_gone AS (DELETE FROM retry_queue WHERE flow_id = ANY ((SELECT ids FROM pruned)::text[])),
heartbeats_gone AS (DELETE FROM heartbeats WHERE flow_id = ANY ((SELECT ids FROM pruned)::text[])),
dead_letters_gone AS (DELETE FROM dead_letters WHERE flow_id = ANY ((SELECT ids FROM pruned)::text[])),
runs_gone AS (DELETE FROM ended_runs WHERE flow_id = ANY ((SELECT ids FROM pruned)::text[])),
messages_gone AS (DELETE FROM messages WHERE flow_id = ANY ((SELECT ids FROM pruned)::text[])),
flows_gone AS (DELETE FROM flows WHERE id = ANY ((SELECT ids FROM pruned)::text[]) RETURNING id)
SELECT count(*) FROM flows_gone
"""

# `recipient` holds the latest versions of the flows, locked; finished flows get no message.
_DELIVER = """
delivered AS (
    UPDATE flows SET
        messages_sent = messages_sent + 1,
        status = CASE WHEN flows.status = 'running' THEN 'running' ELSE 'ready' END,
        wake_at = CASE WHEN flows.status IN ('running', 'ready') THEN flows.wake_at ELSE to_timestamp($1) END,
        finished_at = NULL
    FROM recipient WHERE flows.id = recipient.id AND recipient.accepts
),
stored AS (
    INSERT INTO messages (flow_id, at, body) SELECT id, to_timestamp($1), $2::text::json FROM recipient WHERE accepts
),
notified AS (SELECT count(pg_notify($3, '')) FROM (SELECT FROM recipient WHERE accepts LIMIT 1) AS one)
"""

SEND = f"""
WITH recipient AS MATERIALIZED (
    SELECT id, status, status NOT IN ('completed', 'failed', 'cancelled') OR $5 AND status = 'failed' AS accepts
    FROM flows WHERE id = $4 FOR UPDATE
), {_DELIVER}
SELECT status FROM recipient, notified
"""

CLOSE_DEAD_LETTERS = """
UPDATE dead_letters SET state = $2, "by" = $3, why = $4, closed_at = to_timestamp($5)
WHERE flow_id = ANY ($1::text[]) AND state = 'dead' RETURNING flow_id
"""

CLOSE_DEAD_LETTERS_AND_SEND = f"""
WITH closed AS (
    UPDATE dead_letters SET state = $5, "by" = $6, why = $7, closed_at = to_timestamp($1)
    WHERE flow_id = ANY ($4::text[]) AND state = 'dead' RETURNING flow_id
),
recipient AS MATERIALIZED (
    SELECT id, status NOT IN ('completed', 'cancelled') AS accepts
    FROM flows JOIN closed ON closed.flow_id = id ORDER BY id FOR UPDATE OF flows
), {_DELIVER}
SELECT flow_id FROM closed, notified
"""

READ_INBOX = f"""
SELECT {selected(MESSAGE, "m")} FROM flows AS f JOIN messages AS m ON m.flow_id = f.id
WHERE f.owner = $1 AND f.messages_sent > f.messages_read ORDER BY m.id
"""

COUNT_UNREAD = "SELECT count(*) FROM messages WHERE flow_id = $1"

PAUSE_QUEUE = """
WITH changed AS (
    INSERT INTO queue_pauses (name, at, "by", why) VALUES ($1, to_timestamp($2), $3, $4)
    ON CONFLICT (name) DO NOTHING RETURNING 1
)
SELECT EXISTS (SELECT FROM changed), pg_notify($5, '')
"""

RESUME_QUEUE = """
WITH changed AS (DELETE FROM queue_pauses WHERE name = $1 RETURNING 1)
SELECT EXISTS (SELECT FROM changed), pg_notify($2, '')
"""

_LIST_QUEUES = """
WITH counted (name, ready, waiting, due, running, paused, parked) AS (
    SELECT queue, count(*), 0, 0, 0, 0, 0 FROM flows
    WHERE status = 'ready' AND concurrency_key IS NULL {of_queue} GROUP BY queue
    UNION ALL SELECT queue, count(*), 0, 0, 0, 0, 0 FROM flows
    WHERE status = 'ready' AND concurrency_key IS NOT NULL {of_queue} GROUP BY queue
    UNION ALL SELECT queue, 0, count(*), count(*) FILTER (WHERE wake_at <= to_timestamp($1)), 0, 0, 0
    FROM flows WHERE status = 'waiting' {of_queue} GROUP BY queue
    UNION ALL SELECT queue, 0, 0, 0, count(*), 0, 0 FROM flows WHERE owner IS NOT NULL {of_queue} GROUP BY queue
    UNION ALL SELECT
        queue, 0, 0, 0, 0, count(*) FILTER (WHERE status = 'paused'), count(*) FILTER (WHERE status = 'parked')
    FROM flows WHERE status IN ('paused', 'parked') {of_queue} GROUP BY queue
    UNION ALL SELECT name, 0, 0, 0, 0, 0, 0 FROM queue_limits
    UNION ALL SELECT name, 0, 0, 0, 0, 0, 0 FROM queue_pauses
)
SELECT
    name, {settings}, date_part('epoch', at) AS at, "by", why,
    sum(ready)::bigint AS ready, sum(waiting)::bigint AS waiting, sum(due)::bigint AS due,
    sum(running)::bigint AS running, sum(paused)::bigint AS paused, sum(parked)::bigint AS parked
FROM counted LEFT JOIN queue_limits USING (name) LEFT JOIN queue_pauses USING (name) {of_name}
GROUP BY name, {settings}, at, "by", why ORDER BY name
"""
LIST_QUEUES = _LIST_QUEUES.format(of_queue="", of_name="", settings=named(SETTINGS))
LIST_QUEUE = _LIST_QUEUES.format(of_queue="AND queue = $2", of_name="WHERE name = $2", settings=named(SETTINGS))

COUNT_RETRIES = "SELECT queue, count(*) FROM retry_queue GROUP BY queue"
