-- When flows begin by themselves.
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL,                         -- its definition and state: a JSON object
    next_at REAL,                               -- when it is due; NULL: never by time
    waits_for TEXT,                             -- it is due once this flow has ended
    version INTEGER NOT NULL                    -- how often it was written
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_waiting ON schedules (waits_for) WHERE waits_for IS NOT NULL;
