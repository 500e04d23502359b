-- Who takes workers down. A worker notes whom to blame if it is lost from now on; whoever ends its lease hands that on.
ALTER TABLE workers ADD COLUMN suspect TEXT;  -- the flow to blame; NULL: nobody
ALTER TABLE workers ADD COLUMN blame TEXT;    -- what that flow is blamed for
ALTER TABLE flows ADD COLUMN blame TEXT;      -- what is known against the flow: it was lost alone, or held its worker
-- The time of the workers when one last renewed its lease. It does not go back when the machine's clock is set back, so that
-- whoever opens the file next goes on from there, and no timer waits for longer.
CREATE TABLE latest_time (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at REAL NOT NULL
);
