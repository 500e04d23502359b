-- Flow control: settings of queues, and turns between the keys of a queue.
CREATE TABLE queue_settings (
    name TEXT PRIMARY KEY,
    "limit" INTEGER,                          -- how many flows of the queue may be owned at once
    per_key INTEGER,                          -- how many of these may have the same concurrency key
    rate TEXT,                                -- how many may begin in which time, such as 100/m
    key_rate TEXT,                            -- the same for each concurrency key
    aging REAL                                -- seconds of waiting after which the priority rises by one
);
INSERT INTO queue_settings (name, "limit") SELECT name, "limit" FROM queue_limits;
DROP TABLE queue_limits;
ALTER TABLE queue_settings RENAME TO queue_limits;

-- Up to which time a rate has been used; a row goes when that time has passed.
CREATE TABLE queue_rates (
    name TEXT NOT NULL,
    key TEXT NOT NULL,                        -- a concurrency key; '' for the rate of the queue itself
    level REAL NOT NULL,
    PRIMARY KEY (name, key)
) WITHOUT ROWID;
CREATE INDEX queue_rates_level ON queue_rates (name, level);

-- How far each line of a queue with concurrency keys has come.
CREATE TABLE queue_turns (
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    kind TEXT NOT NULL,
    priority INTEGER NOT NULL,
    key TEXT NOT NULL,                        -- that had its turn last
    turn INTEGER NOT NULL,                    -- the line with the lowest one goes next
    PRIMARY KEY (name, definition, kind, priority)
) WITHOUT ROWID;

-- Flows with a concurrency key have an index of their own, in which a claim jumps from one key to the next.
DROP INDEX flows_ready;
CREATE INDEX flows_ready ON flows (queue, definition, priority DESC, wake_at)
WHERE status = 'ready' AND concurrency_key IS NULL;
CREATE INDEX flows_begun ON flows (queue, definition, priority DESC, wake_at)
WHERE status = 'ready' AND concurrency_key IS NULL AND claims > 0;
CREATE INDEX flows_keyed ON flows (queue, definition, (claims > 0), priority DESC, concurrency_key, wake_at)
WHERE status = 'ready' AND concurrency_key IS NOT NULL;
CREATE INDEX flows_held ON flows (queue, concurrency_key) WHERE owner IS NOT NULL AND concurrency_key IS NOT NULL;
