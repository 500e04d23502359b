-- Where the database's setting standard_conforming_strings was off, the view of version 3 lost its backslashes, and with
-- them the types of all lines. Sessions set it themselves now; here is the view once more.
CREATE OR REPLACE VIEW log_lines AS
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
