-- Paused queues: workers begin no attempt of their flows.
CREATE TABLE queue_pauses (
    name TEXT PRIMARY KEY,
    at REAL NOT NULL,
    "by" TEXT NOT NULL,
    why TEXT NOT NULL
);

-- The flows that someone has to act on, which are few.
CREATE INDEX flows_stopped ON flows (status, queue) WHERE status IN ('paused', 'parked');
