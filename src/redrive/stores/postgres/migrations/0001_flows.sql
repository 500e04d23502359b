-- No foreign keys: only a flow's owner writes, under a lease that is checked in the same statement, and checking a key
-- for each event would cost more than all else. `prune` removes what belongs together.
-- Texts that are searched compare by bytes ("C"): ids are in the order of time, and no locale can change that.

CREATE TABLE workers (
    epoch bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    definitions text[] NOT NULL,
    queues text[],                         -- NULL: all
    joined_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,       -- by the clock of this server
    batch bigint NOT NULL DEFAULT 0,       -- the last one committed under the lease
    -- When an answer was lost, what may still be on its way is refused: commits with another fence, and claims with a
    -- lower number.
    commit_fence bigint NOT NULL DEFAULT 0,
    claim_floor bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE flows (
    id text COLLATE "C" PRIMARY KEY,
    definition text COLLATE "C" NOT NULL,
    input json NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    key text COLLATE "C",
    status text COLLATE "C" NOT NULL CHECK (
        status IN ('ready', 'waiting', 'running', 'paused', 'parked', 'completed', 'failed', 'cancelled')
    ),
    created_at timestamptz NOT NULL,
    start_at timestamptz NOT NULL,
    wake_at timestamptz,                   -- of a ready flow: since when
    owner bigint,                          -- workers.epoch
    claims bigint NOT NULL DEFAULT 0,
    claim_number bigint,                   -- which claim of its owner took it
    messages_sent bigint NOT NULL DEFAULT 0,
    messages_read bigint NOT NULL DEFAULT 0,
    finished_at timestamptz,
    CHECK ((status = 'running') = (owner IS NOT NULL)),
    CHECK (wake_at IS NOT NULL OR status NOT IN ('ready', 'waiting', 'running'))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX flows_key ON flows (definition, key) WHERE key IS NOT NULL;
-- A claim looks at each pair of queue and definition by itself, so that a pile of one never hides another.
CREATE INDEX flows_ready ON flows (queue, definition, priority DESC, wake_at) WHERE status = 'ready';
CREATE INDEX flows_waiting ON flows (queue, definition, wake_at) WHERE status = 'waiting';
CREATE INDEX flows_owned ON flows (queue, owner) WHERE owner IS NOT NULL;
CREATE INDEX flows_with_mail ON flows (owner) WHERE owner IS NOT NULL AND messages_sent > messages_read;
CREATE INDEX flows_finished ON flows (finished_at) WHERE finished_at IS NOT NULL;
-- The rare ones, which people ask for.
CREATE INDEX flows_stopped ON flows (status, id) WHERE status IN ('paused', 'parked', 'failed', 'cancelled');

CREATE TABLE events (
    flow_id text COLLATE "C" NOT NULL,
    seq integer NOT NULL,
    at timestamptz NOT NULL,
    body json NOT NULL,
    PRIMARY KEY (flow_id, seq)
);

CREATE TABLE retry_queue (
    flow_id text COLLATE "C" NOT NULL,
    item integer NOT NULL,
    step text NOT NULL,
    queue text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (status IN ('waiting', 'dispatched')),
    attempt_number bigint NOT NULL,        -- from 0
    max_retries bigint,                    -- NULL: no limit
    timeout_seconds double precision,
    timeout_retry_limit bigint,
    backoff_kind text NOT NULL,
    backoff_base_delay_ms double precision NOT NULL,
    retry_kind text NOT NULL,
    scheduled_at timestamptz NOT NULL,
    timeout_at timestamptz,
    delivery_token text,
    PRIMARY KEY (flow_id, item)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX retry_queue_scheduled ON retry_queue (scheduled_at);

CREATE TABLE heartbeats (
    flow_id text COLLATE "C" NOT NULL,
    item integer NOT NULL,
    at timestamptz NOT NULL,
    details json NOT NULL,
    PRIMARY KEY (flow_id, item)
);

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

CREATE INDEX dead_letters_listed ON dead_letters (state, at, flow_id);

CREATE TABLE messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow_id text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    body json NOT NULL
);

CREATE INDEX messages_of_flow ON messages (flow_id, id);

CREATE TABLE queue_limits (
    name text COLLATE "C" PRIMARY KEY,
    "limit" bigint NOT NULL CHECK ("limit" >= 0)
);
