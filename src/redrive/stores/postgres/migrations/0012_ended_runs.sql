-- The runs that a flow had before it continued as new; their events are those after run_from up to run_to.
CREATE TABLE ended_runs (
    flow_id text COLLATE "C" NOT NULL,
    run_from integer NOT NULL,
    run_to integer NOT NULL,
    ended_at timestamptz NOT NULL,
    input json NOT NULL,
    PRIMARY KEY (flow_id, run_to)
);

CREATE INDEX ended_runs_oldest ON ended_runs (ended_at);
-- Only of long logs, so that they are found without reading the others.
CREATE INDEX events_long ON events (flow_id) WHERE seq > 10000;
