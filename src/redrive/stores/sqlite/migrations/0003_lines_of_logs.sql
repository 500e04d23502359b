-- Since this version a row of `events` has all events that were logged together, as an array; `seq` is the last one's.
-- Rows from before have one event each. For people, here they are one by one.
CREATE VIEW log_lines AS
SELECT
    turn.flow_id,
    turn.seq - json_array_length(turn.body) + line.key + 1 AS seq,
    turn.at,
    json_extract(line.value, '$.type') AS type,
    line.value AS body
FROM (
    SELECT flow_id, seq, at, CASE WHEN json_type(body) = 'array' THEN body ELSE json_array(json(body)) END AS body
    FROM events
) AS turn, json_each(turn.body) AS line;
