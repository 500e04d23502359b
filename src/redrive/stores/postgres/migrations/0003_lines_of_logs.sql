-- Since this version a row of `events` has all events that were logged together, as an array; `seq` is the last one's.
-- Rows from before have one event each. For people, here they are one by one.
CREATE VIEW log_lines AS
SELECT
    events.flow_id,
    events.seq - json_array_length(turn.body) + line.place::integer AS seq,
    events.at,
    -- Not ->> 'type', which reads all of the line, and refuses NUL in any text of it.
    substring(line.body::text FROM '"type"\s*:\s*"(\w+)"') AS type,
    line.body
FROM events
CROSS JOIN LATERAL (
    SELECT CASE WHEN json_typeof(events.body) = 'array' THEN events.body ELSE json_build_array(events.body) END AS body
) AS turn
CROSS JOIN LATERAL json_array_elements(turn.body) WITH ORDINALITY AS line (body, place);
