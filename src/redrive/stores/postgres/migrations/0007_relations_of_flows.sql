-- What a flow belongs to: its parent, a batch, its tags, the key of its limits, a version of the code; and its runs.
ALTER TABLE flows
    ADD COLUMN parent text COLLATE "C",           -- the flow that started it as a child
    ADD COLUMN batch text COLLATE "C",
    ADD COLUMN tags text,                         -- a JSON object of texts
    ADD COLUMN concurrency_key text COLLATE "C",
    ADD COLUMN version text COLLATE "C",          -- NULL: any version of the code
    ADD COLUMN run_from integer NOT NULL DEFAULT 0;  -- the number of the event before the current run

CREATE INDEX flows_children ON flows (parent) WHERE parent IS NOT NULL;
CREATE INDEX flows_batch ON flows (batch, status) WHERE batch IS NOT NULL;
