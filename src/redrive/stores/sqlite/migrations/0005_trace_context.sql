-- The trace that a flow belongs to, whichever workers run it: the W3C traceparent of whoever started it.
ALTER TABLE flows ADD COLUMN traceparent TEXT;  -- NULL: the flow is a trace of its own
