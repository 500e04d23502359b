-- When flows begin by themselves.
CREATE TABLE schedules (
    name text COLLATE "C" PRIMARY KEY,
    body text NOT NULL,            -- its definition and state: a JSON object
    next_at timestamptz,           -- when it is due; NULL: never by time
    waits_for text COLLATE "C",    -- it is due once this flow has ended
    version bigint NOT NULL        -- how often it was written
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_waiting ON schedules (waits_for) WHERE waits_for IS NOT NULL;
