-- Batches: flows that were started together; they have its name in flows.batch.
CREATE TABLE batches (
    name text COLLATE "C" PRIMARY KEY,
    created_at timestamptz NOT NULL,
    total bigint,                          -- NULL while its flows are being added
    digest text,                           -- of the calls, once all were added
    tags text,                             -- a JSON object of texts
    on_done text,                          -- what to start when all have ended
    done_at timestamptz                    -- when all had ended
);

CREATE INDEX batches_newest ON batches (created_at DESC, name DESC);
CREATE INDEX batches_open ON batches (created_at) WHERE done_at IS NULL AND total IS NOT NULL;
CREATE INDEX batches_done ON batches (done_at) WHERE done_at IS NOT NULL;
