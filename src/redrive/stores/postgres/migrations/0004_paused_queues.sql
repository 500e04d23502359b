-- Paused queues: workers begin no attempt of their flows.
CREATE TABLE queue_pauses (
    name text COLLATE "C" PRIMARY KEY,
    at timestamptz NOT NULL,
    "by" text NOT NULL,
    why text NOT NULL
);

-- The key first, so that a flow is found by its key alone.
DROP INDEX flows_key;
CREATE UNIQUE INDEX flows_key ON flows (key, definition) WHERE key IS NOT NULL;
