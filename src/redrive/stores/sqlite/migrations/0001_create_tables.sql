-- Times are seconds since 1970 (UTC). Bodies are JSON texts.
-- There are no foreign keys: only a flow's owner writes its rows, and `prune` removes a flow with all its rows.

-- One row for each flow.
CREATE TABLE flows (
    number INTEGER PRIMARY KEY,               -- insertion order
    id TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,                -- higher goes first
    key TEXT,                                 -- unique among the flows of a definition
    status TEXT NOT NULL,
    created_at REAL NOT NULL,
    start_at REAL NOT NULL,
    wake_at REAL,
    owner INTEGER,                            -- workers.epoch
    claims INTEGER NOT NULL DEFAULT 0,
    messages_sent INTEGER NOT NULL DEFAULT 0,
    messages_read INTEGER NOT NULL DEFAULT 0,
    finished_at REAL,
    lost_owners INTEGER NOT NULL DEFAULT 0,   -- owners reaped in a row; a flow that kills its workers is stopped by it
    input TEXT NOT NULL
);

CREATE UNIQUE INDEX flows_key ON flows (key, definition) WHERE key IS NOT NULL;
-- A claim reads one partition (queue and definition) at a time. These indexes hold only flows that can be claimed.
CREATE INDEX flows_ready ON flows (queue, definition, priority DESC, wake_at) WHERE status = 'ready';
CREATE INDEX flows_waiting ON flows (queue, definition, wake_at) WHERE status = 'waiting';
CREATE INDEX flows_owned ON flows (owner, queue) WHERE owner IS NOT NULL;
CREATE INDEX flows_finished ON flows (finished_at) WHERE finished_at IS NOT NULL;

-- The flows' event logs. A row holds the events that were committed together.
CREATE TABLE events (
    flow_id TEXT NOT NULL,
    seq INTEGER NOT NULL,                     -- the number of the last event in the row
    at REAL NOT NULL,
    body TEXT NOT NULL,                       -- a JSON array of events
    PRIMARY KEY (flow_id, seq)
) WITHOUT ROWID;

-- The same logs with one event a row.
CREATE VIEW event_log AS
SELECT
    events.flow_id,
    events.seq - json_array_length(events.body) + event.key + 1 AS seq,
    events.at,
    json_extract(event.value, '$.type') AS type,
    event.value AS body
FROM events, json_each(events.body) AS event;

-- The flows' inboxes: unread messages.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    flow_id TEXT NOT NULL,
    at REAL NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX messages_flow ON messages (flow_id);

-- Work items that wait for their next attempt or are in it.
CREATE TABLE retry_queue (
    flow_id TEXT NOT NULL,
    item INTEGER NOT NULL,
    step TEXT NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,                     -- waiting, dispatched
    attempt_number INTEGER NOT NULL,          -- from 0; 1 is the first retry
    max_retries INTEGER,                      -- NULL: no limit
    timeout_seconds REAL,
    timeout_retry_limit INTEGER,
    backoff_kind TEXT NOT NULL,
    backoff_base_delay_ms REAL NOT NULL,
    retry_kind TEXT NOT NULL,
    scheduled_at REAL NOT NULL,
    timeout_at REAL,
    delivery_token TEXT,
    retryable INTEGER NOT NULL DEFAULT 1,
    dependencies_satisfied INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (flow_id, item)
) WITHOUT ROWID;

CREATE INDEX retry_queue_next ON retry_queue (scheduled_at);

-- What waits, and until when.
CREATE VIEW waiting_retries AS
SELECT
    strftime('%Y-%m-%d %H:%M:%f', scheduled_at, 'unixepoch') AS next_attempt_utc,
    flow_id,
    item,
    step,
    queue,
    attempt_number,
    max_retries,
    retry_kind,
    backoff_kind,
    backoff_base_delay_ms,
    timeout_seconds
FROM retry_queue
WHERE status = 'waiting'
ORDER BY scheduled_at;

-- Whether the work of each row may be attempted: the rule of policies/eligibility.py in SQL.
-- `attempt_number` counts the attempts before the next one, or before the one that is running.
CREATE VIEW retry_eligibility AS
SELECT
    flow_id,
    item,
    step,
    queue,
    status,
    attempts,
    max_attempts,
    retryable,
    retry_eligible,
    next_retry_at,
    dependencies_satisfied,
    status = 'waiting' AND retry_eligible AND dependencies_satisfied AND due AS ready,
    CASE
        WHEN status <> 'waiting' THEN 'an attempt is under way'
        WHEN NOT retry_eligible AND NOT retryable THEN 'not retryable'
        WHEN NOT retry_eligible THEN 'no attempts left'
        WHEN NOT dependencies_satisfied THEN 'waits for its dependencies'
        WHEN NOT due THEN 'waits for its time'
        WHEN attempts = 0 THEN 'first execution'
        ELSE 'may be retried'
    END AS reason
FROM (
    SELECT
        *,
        attempts = 0 OR (retryable AND (max_attempts IS NULL OR attempts < max_attempts)) AS retry_eligible,
        next_retry_at IS NULL OR next_retry_at <= (julianday('now') - 2440587.5) * 86400.0 AS due
    FROM (
        SELECT
            *,
            attempt_number + (status = 'dispatched') AS attempts,
            min(max_retries, 9223372036854775806) + 1 AS max_attempts,
            CASE WHEN status = 'waiting' THEN scheduled_at END AS next_retry_at
        FROM retry_queue
    )
);

-- The latest heartbeat details of each running attempt.
CREATE TABLE heartbeats (
    flow_id TEXT NOT NULL,
    item INTEGER NOT NULL,
    at REAL NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (flow_id, item)
) WITHOUT ROWID;

-- Flows that failed for good.
CREATE TABLE dead_letters (
    flow_id TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    queue TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    step TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    error_type TEXT NOT NULL,
    message TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,                      -- dead, redriven, discarded
    "by" TEXT,
    why TEXT,
    closed_at REAL
);

CREATE INDEX dead_letters_oldest ON dead_letters (at, flow_id);

-- Leases, one for each worker.
CREATE TABLE workers (
    epoch INTEGER PRIMARY KEY AUTOINCREMENT,  -- the fencing token
    name TEXT NOT NULL,
    definitions TEXT NOT NULL,                -- JSON array
    queues TEXT NOT NULL,                     -- JSON array; null: all
    joined_at REAL NOT NULL,
    -- Expiry by the wall clock, to be shown. It decides only where no lock proves that the worker runs on this machine.
    expires_at REAL NOT NULL,
    -- Expiry by this machine's monotonic clock, which nobody can set.
    expires_at_monotonic REAL NOT NULL,
    last_batch INTEGER NOT NULL DEFAULT 0     -- the number of the last batch committed under the lease
);

CREATE TABLE queue_limits (
    name TEXT PRIMARY KEY,
    "limit" INTEGER NOT NULL                  -- how many flows of the queue may be owned at once
);

CREATE TABLE step_catalogue (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL,                       -- the step as it was registered
    updated_at REAL NOT NULL
);

CREATE TABLE access_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    digest TEXT NOT NULL,                     -- the key itself is not stored
    created_at REAL NOT NULL
);
