-- Flow control: settings of queues, and turns between the keys of a queue.
ALTER TABLE queue_limits
    ALTER COLUMN "limit" DROP NOT NULL,
    ADD COLUMN per_key bigint,                -- how many of the owned flows may have the same concurrency key
    ADD COLUMN rate text,                     -- how many may begin in which time, such as 100/m
    ADD COLUMN key_rate text,                 -- the same for each concurrency key
    ADD COLUMN aging double precision;        -- seconds of waiting after which the priority rises by one

-- Up to which time a rate has been used; a row goes when that time has passed.
CREATE TABLE queue_rates (
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,            -- a concurrency key; '' for the rate of the queue itself
    level double precision NOT NULL,
    PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX queue_rates_level ON queue_rates (name, level);

-- How far each line of a queue with concurrency keys has come.
CREATE TABLE queue_turns (
    name text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    key text COLLATE "C" NOT NULL,            -- that had its turn last
    turn bigint NOT NULL,                     -- the line with the lowest one goes next
    PRIMARY KEY (name, definition, kind, priority)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Flows with a concurrency key have an index of their own, in which a claim jumps from one key to the next.
DROP INDEX flows_ready;
CREATE INDEX flows_ready ON flows (queue, definition, priority DESC, wake_at)
WHERE status = 'ready' AND concurrency_key IS NULL;
CREATE INDEX flows_begun ON flows (queue, definition, priority DESC, wake_at)
WHERE status = 'ready' AND concurrency_key IS NULL AND claims > 0;
CREATE INDEX flows_keyed ON flows (queue, definition, (claims > 0), priority DESC, concurrency_key, wake_at)
WHERE status = 'ready' AND concurrency_key IS NOT NULL;
CREATE INDEX flows_held ON flows (queue, concurrency_key) WHERE owner IS NOT NULL AND concurrency_key IS NOT NULL;
