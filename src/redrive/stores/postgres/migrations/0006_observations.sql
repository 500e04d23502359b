-- What work items wait for, and why, so that it can be shown and counted without reading the logs.
ALTER TABLE retry_queue
    ADD COLUMN definition text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN dependency text NOT NULL DEFAULT '',  -- what the step talks to; '': nothing that has a name
    ADD COLUMN waits_for text NOT NULL DEFAULT '',   -- '' while its attempt runs
    ADD COLUMN reason text NOT NULL DEFAULT '',      -- in words, where the other columns do not say it
    ADD COLUMN error_type text NOT NULL DEFAULT '',  -- of the last failure
    ADD COLUMN since timestamptz;                    -- when it began to wait, or its attempt began
UPDATE retry_queue SET
    definition = coalesce((SELECT flows.definition FROM flows WHERE flows.id = flow_id), ''),
    waits_for = CASE
        WHEN status = 'dispatched' THEN ''
        WHEN retry_kind = 'deferred' THEN 'circuit'
        WHEN retry_kind IN ('snooze', 'redrive') THEN retry_kind
        ELSE 'backoff'
    END;
ALTER TABLE dead_letters ADD COLUMN dependency text NOT NULL DEFAULT '';

-- What attempts and flows came to, minute by minute; it is kept for two days.
CREATE TABLE activity (
    at timestamptz NOT NULL,               -- when the minute began
    definition text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,        -- '' for flows
    dependency text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,     -- succeeded, retried, gave_up, deferred, flow_started, flow_completed, ...
    count bigint NOT NULL,
    seconds double precision NOT NULL,     -- how long they took together
    PRIMARY KEY (at, definition, step, dependency, outcome)
);

-- What each worker told of itself last; a row goes with the worker's lease.
CREATE TABLE worker_reports (
    epoch bigint PRIMARY KEY,              -- workers.epoch
    at timestamptz NOT NULL,
    body json NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Circuits that someone opened or closed by hand.
CREATE TABLE dependency_orders (
    name text COLLATE "C" PRIMARY KEY,
    "order" text NOT NULL CHECK ("order" IN ('open', 'close')),
    "by" text NOT NULL,
    why text NOT NULL,
    at timestamptz NOT NULL
);
