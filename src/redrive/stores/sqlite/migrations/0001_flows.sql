-- Times are seconds since 1970, UTC.

CREATE TABLE flows (
    number INTEGER PRIMARY KEY,  -- in the order they were added
    id TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    key TEXT,
    status TEXT NOT NULL,
    created_at REAL NOT NULL,
    start_at REAL NOT NULL,
    wake_at REAL,
    owner INTEGER,               -- workers.epoch
    claims INTEGER NOT NULL DEFAULT 0,
    messages_sent INTEGER NOT NULL DEFAULT 0,
    messages_read INTEGER NOT NULL DEFAULT 0,
    finished_at REAL,
    input TEXT NOT NULL
);

CREATE UNIQUE INDEX flows_key ON flows (key, definition) WHERE key IS NOT NULL;
-- What a claim asks for, lane by lane: a lane is a queue and a definition. Only flows that can be claimed are in these.
CREATE INDEX flows_ready ON flows (queue, definition, priority DESC, wake_at) WHERE status = 'ready';
CREATE INDEX flows_waiting ON flows (queue, definition, wake_at) WHERE status = 'waiting';
CREATE INDEX flows_owned ON flows (owner, queue) WHERE owner IS NOT NULL;
CREATE INDEX flows_finished ON flows (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE events (
    flow_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (flow_id, seq)
) WITHOUT ROWID;

CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    flow_id TEXT NOT NULL,
    at REAL NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX messages_flow ON messages (flow_id);

CREATE TABLE retry_queue (
    flow_id TEXT NOT NULL,
    item INTEGER NOT NULL,
    step TEXT NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    attempt_number INTEGER NOT NULL,
    max_retries INTEGER,
    timeout_seconds REAL,
    timeout_retry_limit INTEGER,
    backoff_kind TEXT NOT NULL,
    backoff_base_delay_ms REAL NOT NULL,
    retry_kind TEXT NOT NULL,
    scheduled_at REAL NOT NULL,
    timeout_at REAL,
    delivery_token TEXT,
    PRIMARY KEY (flow_id, item)
) WITHOUT ROWID;

CREATE INDEX retry_queue_next ON retry_queue (scheduled_at);

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

CREATE TABLE heartbeats (
    flow_id TEXT NOT NULL,
    item INTEGER NOT NULL,
    at REAL NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (flow_id, item)
) WITHOUT ROWID;

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
    state TEXT NOT NULL,
    "by" TEXT,
    why TEXT,
    closed_at REAL
);

CREATE INDEX dead_letters_oldest ON dead_letters (at, flow_id);

CREATE TABLE workers (
    epoch INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    definitions TEXT NOT NULL,   -- JSON
    queues TEXT NOT NULL,        -- JSON
    joined_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    batch INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE queue_limits (
    queue TEXT PRIMARY KEY,
    most INTEGER NOT NULL
);
