-- What a flow belongs to: its parent, a batch, its tags, the key of its limits, a version of the code; and its runs.
ALTER TABLE flows ADD COLUMN parent TEXT;           -- the flow that started it as a child
ALTER TABLE flows ADD COLUMN batch TEXT;
ALTER TABLE flows ADD COLUMN tags TEXT;             -- a JSON object of texts
ALTER TABLE flows ADD COLUMN concurrency_key TEXT;
ALTER TABLE flows ADD COLUMN version TEXT;          -- NULL: any version of the code
ALTER TABLE flows ADD COLUMN run_from INTEGER NOT NULL DEFAULT 0;  -- the number of the event before the current run

CREATE INDEX flows_children ON flows (parent) WHERE parent IS NOT NULL;
CREATE INDEX flows_batch ON flows (batch, status) WHERE batch IS NOT NULL;
