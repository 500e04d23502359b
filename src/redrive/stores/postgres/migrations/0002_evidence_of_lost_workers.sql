-- Who takes workers down. A worker notes whom to blame if it is lost from now on; whoever ends its lease hands that on.
ALTER TABLE workers ADD COLUMN suspect text;  -- the flow to blame; NULL: nobody
ALTER TABLE workers ADD COLUMN blame text;    -- what that flow is blamed for
ALTER TABLE flows ADD COLUMN blame text;      -- what is known against the flow: it was lost alone, or held its worker
