-- There are no foreign keys: only a flow's owner writes its rows, under a lease that the same statement checks, and a
-- key check for each event would cost more than the rest of the commit. `prune` removes a flow with all its rows.
-- Text columns that are searched use the "C" collation: flow ids sort by time, whatever the locale.

-- Leases, one for each worker.
CREATE TABLE workers (
    epoch bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- the fencing token
    name text NOT NULL,
    definitions text[] NOT NULL,
    queues text[],                         -- NULL: all
    joined_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,       -- by this server's clock
    last_batch bigint NOT NULL DEFAULT 0,  -- the number of the last batch committed under the lease
    -- After a lost answer, these reject what may still be in flight: commits with an older fence, and claims with a
    -- lower number.
    commit_fence bigint NOT NULL DEFAULT 0,
    claim_floor bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row for each flow.
CREATE TABLE flows (
    id text COLLATE "C" PRIMARY KEY,
    definition text COLLATE "C" NOT NULL,
    input json NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,              -- higher goes first
    key text COLLATE "C",                  -- unique among the flows of a definition
    status text COLLATE "C" NOT NULL CHECK (
        status IN ('ready', 'waiting', 'running', 'paused', 'parked', 'completed', 'failed', 'cancelled')
    ),
    created_at timestamptz NOT NULL,
    start_at timestamptz NOT NULL,
    wake_at timestamptz,                   -- of a ready flow: since when it is ready
    owner bigint,                          -- workers.epoch
    claims bigint NOT NULL DEFAULT 0,
    claim_number bigint,                   -- the owner's claim that took the flow
    messages_sent bigint NOT NULL DEFAULT 0,
    messages_read bigint NOT NULL DEFAULT 0,
    finished_at timestamptz,
    lost_owners bigint NOT NULL DEFAULT 0, -- owners reaped in a row; a flow that kills its workers is stopped by it
    CHECK ((status = 'running') = (owner IS NOT NULL)),
    CHECK (wake_at IS NOT NULL OR status NOT IN ('ready', 'waiting', 'running'))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX flows_key ON flows (definition, key) WHERE key IS NOT NULL;
-- A claim reads one partition (queue and definition) at a time, so that a backlog in one never hides another.
CREATE INDEX flows_ready ON flows (queue, definition, priority DESC, wake_at) WHERE status = 'ready';
CREATE INDEX flows_waiting ON flows (queue, definition, wake_at) WHERE status = 'waiting';
CREATE INDEX flows_owned ON flows (queue, owner) WHERE owner IS NOT NULL;
CREATE INDEX flows_unread ON flows (owner) WHERE owner IS NOT NULL AND messages_sent > messages_read;
CREATE INDEX flows_finished ON flows (finished_at) WHERE finished_at IS NOT NULL;
-- The rare statuses, which operators list.
CREATE INDEX flows_stopped ON flows (status, id) WHERE status IN ('paused', 'parked', 'failed', 'cancelled');

-- The flows' event logs. A row holds the events that were committed together.
CREATE TABLE events (
    flow_id text COLLATE "C" NOT NULL,
    seq integer NOT NULL,                  -- the number of the last event in the row
    at timestamptz NOT NULL,
    body json NOT NULL,                    -- an array of events
    PRIMARY KEY (flow_id, seq)
);

-- The same logs with one event a row.
CREATE VIEW event_log AS
SELECT
    events.flow_id,
    events.seq - json_array_length(events.body) + event.position::integer AS seq,
    events.at,
    -- Not ->> 'type', which parses the whole event and fails on NUL in any of its texts.
    substring(event.body::text FROM '"type"\s*:\s*"(\w+)"') AS type,
    event.body
FROM events
CROSS JOIN LATERAL json_array_elements(events.body) WITH ORDINALITY AS event (body, position);

-- The flows' inboxes: unread messages.
CREATE TABLE messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow_id text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    body json NOT NULL
);

CREATE INDEX messages_flow ON messages (flow_id, id);

-- Work items that wait for their next attempt or are in it.
CREATE TABLE retry_queue (
    flow_id text COLLATE "C" NOT NULL,
    item integer NOT NULL,
    step text NOT NULL,
    queue text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (status IN ('waiting', 'dispatched')),
    attempt_number bigint NOT NULL,        -- from 0; 1 is the first retry
    max_retries bigint,                    -- NULL: no limit
    timeout_seconds double precision,
    timeout_retry_limit bigint,
    backoff_kind text NOT NULL,
    backoff_base_delay_ms double precision NOT NULL,
    retry_kind text NOT NULL,
    scheduled_at timestamptz NOT NULL,
    timeout_at timestamptz,
    delivery_token text,
    retryable boolean NOT NULL DEFAULT true,
    dependencies_satisfied boolean NOT NULL DEFAULT true,
    PRIMARY KEY (flow_id, item)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX retry_queue_next ON retry_queue (scheduled_at);

-- What waits, and until when.
CREATE VIEW waiting_retries AS
SELECT
    to_char(scheduled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') AS next_attempt_utc,
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
        next_retry_at IS NULL OR next_retry_at <= now() AS due
    FROM (
        SELECT
            *,
            attempt_number + (status = 'dispatched')::int AS attempts,
            CASE WHEN max_retries IS NOT NULL THEN least(max_retries, 9223372036854775806) + 1 END AS max_attempts,
            CASE WHEN status = 'waiting' THEN scheduled_at END AS next_retry_at
        FROM retry_queue
    ) AS counted
) AS judged;

-- The latest heartbeat details of each running attempt.
CREATE TABLE heartbeats (
    flow_id text COLLATE "C" NOT NULL,
    item integer NOT NULL,
    at timestamptz NOT NULL,
    details json NOT NULL,
    PRIMARY KEY (flow_id, item)
);

-- Flows that failed for good.
CREATE TABLE dead_letters (
    flow_id text COLLATE "C" PRIMARY KEY,
    definition text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    kind text NOT NULL,
    step text NOT NULL,
    attempts bigint NOT NULL,
    error_type text NOT NULL,
    message text NOT NULL,
    payload text NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('dead', 'redriven', 'discarded')),
    "by" text,
    why text,
    closed_at timestamptz
);

CREATE INDEX dead_letters_oldest ON dead_letters (state, at, flow_id);

CREATE TABLE queue_limits (
    name text COLLATE "C" PRIMARY KEY,
    "limit" bigint NOT NULL CHECK ("limit" >= 0)  -- how many flows of the queue may be owned at once
);

CREATE TABLE step_catalogue (
    name text COLLATE "C" PRIMARY KEY,
    body json NOT NULL,                    -- the step as it was registered
    updated_at timestamptz NOT NULL
);

CREATE TABLE access_keys (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    role text NOT NULL,
    digest text NOT NULL,                  -- the key itself is not stored
    created_at timestamptz NOT NULL
);
