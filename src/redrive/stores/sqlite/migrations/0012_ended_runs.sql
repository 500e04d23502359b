-- The runs that a flow had before it continued as new; their events are those after run_from up to run_to.
CREATE TABLE ended_runs (
    flow_id TEXT NOT NULL,
    run_from INTEGER NOT NULL,
    run_to INTEGER NOT NULL,
    ended_at REAL NOT NULL,
    input TEXT NOT NULL,
    PRIMARY KEY (flow_id, run_to)
) WITHOUT ROWID;

CREATE INDEX ended_runs_oldest ON ended_runs (ended_at);
-- Only of long logs, so that they are found without reading the others.
CREATE INDEX events_long ON events (flow_id) WHERE seq > 10000;
