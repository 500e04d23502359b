-- Batches: flows that were started together; they have its name in flows.batch.
CREATE TABLE batches (
    name TEXT PRIMARY KEY,
    created_at REAL NOT NULL,
    total INTEGER,                         -- NULL while its flows are being added
    digest TEXT,                           -- of the calls, once all were added
    tags TEXT,                             -- a JSON object of texts
    on_done TEXT,                          -- what to start when all have ended
    done_at REAL                           -- when all had ended
);

CREATE INDEX batches_newest ON batches (created_at DESC, name DESC);
CREATE INDEX batches_open ON batches (created_at) WHERE done_at IS NULL AND total IS NOT NULL;
CREATE INDEX batches_done ON batches (done_at) WHERE done_at IS NOT NULL;
