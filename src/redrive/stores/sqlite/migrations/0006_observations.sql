-- What work items wait for, and why, so that it can be shown and counted without reading the logs.
ALTER TABLE retry_queue ADD COLUMN definition TEXT NOT NULL DEFAULT '';
ALTER TABLE retry_queue ADD COLUMN dependency TEXT NOT NULL DEFAULT '';   -- what the step talks to; '': nothing named
ALTER TABLE retry_queue ADD COLUMN waits_for TEXT NOT NULL DEFAULT '';    -- '' while its attempt runs
ALTER TABLE retry_queue ADD COLUMN reason TEXT NOT NULL DEFAULT '';       -- in words, where the other columns do not say it
ALTER TABLE retry_queue ADD COLUMN error_type TEXT NOT NULL DEFAULT '';   -- of the last failure
ALTER TABLE retry_queue ADD COLUMN since REAL;                            -- when it began to wait, or its attempt began
UPDATE retry_queue SET
    definition = coalesce((SELECT flows.definition FROM flows WHERE flows.id = flow_id), ''),
    waits_for = CASE
        WHEN status = 'dispatched' THEN ''
        WHEN retry_kind = 'deferred' THEN 'circuit'
        WHEN retry_kind IN ('snooze', 'redrive') THEN retry_kind
        ELSE 'backoff'
    END;
ALTER TABLE dead_letters ADD COLUMN dependency TEXT NOT NULL DEFAULT '';

-- What attempts and flows came to, minute by minute; it is kept for two days.
CREATE TABLE activity (
    at REAL NOT NULL,                         -- when the minute began
    definition TEXT NOT NULL,
    step TEXT NOT NULL,                       -- '' for flows
    dependency TEXT NOT NULL,
    outcome TEXT NOT NULL,                    -- succeeded, retried, gave_up, deferred, flow_started, flow_completed, ...
    count INTEGER NOT NULL,
    seconds REAL NOT NULL,                    -- how long they took together
    PRIMARY KEY (at, definition, step, dependency, outcome)
) WITHOUT ROWID;

-- What each worker told of itself last; a row goes with the worker's lease.
CREATE TABLE worker_reports (
    epoch INTEGER PRIMARY KEY,                -- workers.epoch
    at REAL NOT NULL,
    body TEXT NOT NULL                        -- a JSON object
);

-- Circuits that someone opened or closed by hand.
CREATE TABLE dependency_orders (
    name TEXT PRIMARY KEY,
    "order" TEXT NOT NULL,                    -- open: hold it open; close: close it once
    "by" TEXT NOT NULL,
    why TEXT NOT NULL,
    at REAL NOT NULL
);

-- The flows that did not end well, newest first.
CREATE INDEX flows_unsuccessful ON flows (status, id) WHERE status IN ('failed', 'cancelled');
