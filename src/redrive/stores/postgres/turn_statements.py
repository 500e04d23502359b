"""The statements of a claim where queues have settings or flows have concurrency keys; see `Turns`.

They run in one transaction, each with the wanted definitions ($1) and queues ($2; NULL: all).
"""

from redrive.stores.postgres.claim_statement import MAX_DUE, PARTITIONS, READY
from redrive.stores.postgres.columns import FLOW, selected
from redrive.stores.turns import MOST_LEVELS

# ruff: noqa: S608 - our own names and numbers; all values are parameters

KEYED = "status = 'ready' AND concurrency_key IS NOT NULL"

_READY_PARTITIONS = PARTITIONS.format(name="ready", of=READY, definitions="$1", queues="$2", also="")
_WAITING_PARTITIONS = PARTITIONS.format(name="waiting", of="status = 'waiting'", definitions="$1", queues="$2", also="")
_KEYED_PARTITIONS = PARTITIONS.format(name="keyed", of=KEYED, definitions="$1", queues="$2", also="")

# Locks the settings of queues with claimable flows, so that no other claim counts owned flows at the same time.
LOCK_SETTINGS = f"""
SELECT name FROM queue_limits
WHERE ($1::text[] IS NULL OR name = ANY ($1)) AND (
    EXISTS (SELECT FROM flows WHERE {READY} AND queue = name)
    OR EXISTS (SELECT FROM flows WHERE {KEYED} AND queue = name)
    OR EXISTS (SELECT FROM flows WHERE status = 'waiting' AND queue = name AND wake_at <= to_timestamp($2))
)
ORDER BY name FOR UPDATE
"""

MAKE_READY = f"""
WITH RECURSIVE {_WAITING_PARTITIONS},
due AS MATERIALIZED (
    SELECT f.id FROM waiting_wanted AS w CROSS JOIN LATERAL (
        SELECT id FROM flows
        WHERE status = 'waiting' AND queue = w.queue AND pool = w.definition AND wake_at <= to_timestamp($3)
        ORDER BY wake_at LIMIT {MAX_DUE} FOR UPDATE SKIP LOCKED
    ) AS f
),
made AS (UPDATE flows SET status = 'ready' WHERE id IN (SELECT id FROM due) RETURNING 1)
SELECT
    (SELECT count(*) FROM made) >= {MAX_DUE} AS more,
    (
        SELECT extract(epoch FROM min(f.wake_at))::float8 FROM waiting_wanted AS w CROSS JOIN LATERAL (
            SELECT wake_at FROM flows
            WHERE status = 'waiting' AND queue = w.queue AND pool = w.definition AND wake_at > to_timestamp($3)
                AND wake_at < 'infinity'
            ORDER BY wake_at LIMIT 1
        ) AS f
    ) AS next_wake,
    ARRAY(SELECT name FROM queue_pauses) AS paused,
    EXISTS (SELECT FROM queue_limits WHERE $2::text[] IS NULL OR name = ANY ($2)) AS has_settings
"""

# Only what was locked may be taken within limits: settings that arrived meanwhile count at the next claim.
STATES = """
SELECT name, "limit", per_key, rate, key_rate, aging,
    (SELECT count(*) FROM flows WHERE queue = l.name AND owner IS NOT NULL) AS owned,
    (SELECT level FROM queue_rates AS r WHERE r.name = l.name AND key = '') AS level,
    (SELECT min(level) FROM queue_rates AS r WHERE r.name = l.name AND level > $2 AND key <> '') AS next_level
FROM queue_limits AS l WHERE $1::text[] IS NULL OR name = ANY ($1)
"""

_LINE_COLUMNS = "queue, definition, kind, level, key, turn, place, rank, id, priority, wake_at, concurrency_key, fresh"
_CANDIDATE = "id, priority, date_part('epoch', wake_at) AS wake_at, claims = 0 AS fresh"

# $3: how many flows; $4 to $8: settings of queues: names, whether it has a rate, whether it ages, how many flows per
# key, the level above which a key waits for its rate; $9: queues that are left out.
# A line without keys is one index scan. One with keys jumps from key to key, from behind the key that was served last
# to the end and then from the beginning, past keys whose flows may not go now.
CANDIDATES = f"""
WITH RECURSIVE {_READY_PARTITIONS}, {_KEYED_PARTITIONS},
settings (name, has_rate, ages, per_key, closed_above) AS MATERIALIZED (
    SELECT * FROM unnest($4::text[], $5::boolean[], $6::boolean[], $7::bigint[], $8::float8[])
),
plain_kinds AS (
    SELECT w.queue, w.definition, k.kind, k.begun, coalesce(s.ages, false) AS ages FROM ready_wanted AS w
    LEFT JOIN settings AS s ON s.name = w.queue
    CROSS JOIN LATERAL (
        SELECT 'plain' AS kind, CASE WHEN s.has_rate THEN false END AS begun
        UNION ALL SELECT 'plain begun', true WHERE s.has_rate
    ) AS k
    WHERE w.queue <> ALL ($9::text[])
),
plain_levels AS (
    SELECT k.*, NULL::bigint AS level FROM plain_kinds AS k WHERE NOT ages
    UNION ALL
    SELECT k.*, p.level FROM plain_kinds AS k CROSS JOIN LATERAL (
        WITH RECURSIVE levels (level) AS (
            (
                SELECT priority FROM flows WHERE {READY} AND queue = k.queue AND pool = k.definition
                ORDER BY priority DESC LIMIT 1
            )
            UNION ALL SELECT (
                SELECT priority FROM flows
                WHERE {READY} AND queue = k.queue AND pool = k.definition AND priority < levels.level
                ORDER BY priority DESC LIMIT 1
            ) FROM levels WHERE levels.level IS NOT NULL
        )
        SELECT level FROM levels WHERE level IS NOT NULL LIMIT {MOST_LEVELS}
    ) AS p WHERE ages
),
plain AS (
    SELECT l.queue, l.definition, l.kind, coalesce(l.level, 0) AS level, t.key, t.turn, 0::bigint AS place,
        row_number() OVER () AS rank, f.id, f.priority, f.wake_at, NULL::text AS concurrency_key, f.fresh
    FROM plain_levels AS l
    LEFT JOIN queue_turns AS t
        ON t.name = l.queue AND t.definition = l.definition AND t.kind = l.kind AND t.priority = coalesce(l.level, 0)
    CROSS JOIN LATERAL (
        (
            SELECT {_CANDIDATE} FROM flows
            WHERE l.begun IS NULL AND l.level IS NULL AND {READY} AND queue = l.queue AND pool = l.definition
            ORDER BY flows.priority DESC, flows.wake_at LIMIT $3
        ) UNION ALL (
            SELECT {_CANDIDATE} FROM flows
            WHERE NOT l.begun AND l.level IS NULL AND {READY} AND queue = l.queue AND pool = l.definition
                AND claims = 0
            ORDER BY flows.priority DESC, flows.wake_at LIMIT $3
        ) UNION ALL (
            SELECT {_CANDIDATE} FROM flows
            WHERE l.begun AND l.level IS NULL AND {READY} AND queue = l.queue AND pool = l.definition
                AND claims > 0
            ORDER BY flows.priority DESC, flows.wake_at LIMIT $3
        ) UNION ALL (
            SELECT {_CANDIDATE} FROM flows
            WHERE {READY} AND queue = l.queue AND pool = l.definition AND priority = l.level
                AND (l.begun IS NULL OR l.begun = (claims > 0))
            ORDER BY flows.wake_at LIMIT $3
        )
    ) AS f
),
keyed_levels AS (
    SELECT w.queue, w.definition, b.begun, b.kind, p.level, s.per_key, s.closed_above FROM keyed_wanted AS w
    LEFT JOIN settings AS s ON s.name = w.queue
    CROSS JOIN (VALUES (true, 'keyed begun'), (false, 'keyed')) AS b (begun, kind)
    CROSS JOIN LATERAL (
        WITH RECURSIVE levels (level) AS (
            (
                SELECT priority FROM flows
                WHERE {KEYED} AND queue = w.queue AND pool = w.definition AND (claims > 0) = b.begun
                ORDER BY priority DESC LIMIT 1
            )
            UNION ALL SELECT (
                SELECT priority FROM flows
                WHERE {KEYED} AND queue = w.queue AND pool = w.definition AND (claims > 0) = b.begun
                    AND priority < levels.level
                ORDER BY priority DESC LIMIT 1
            ) FROM levels WHERE levels.level IS NOT NULL
        )
        SELECT level FROM levels WHERE level IS NOT NULL LIMIT {MOST_LEVELS}
    ) AS p
    WHERE w.queue <> ALL ($9::text[])
),
keyed AS (
    SELECT l.queue, l.definition, l.kind, l.level, t.key, t.turn, k.place, f.rank, f.id, l.level AS priority,
        f.wake_at, k.key AS concurrency_key, f.fresh
    FROM keyed_levels AS l
    LEFT JOIN queue_turns AS t
        ON t.name = l.queue AND t.definition = l.definition AND t.kind = l.kind AND t.priority = l.level
    CROSS JOIN LATERAL (
        WITH RECURSIVE behind (key) AS (
            (
                SELECT concurrency_key FROM flows
                WHERE {KEYED} AND queue = l.queue AND pool = l.definition AND (claims > 0) = l.begun
                    AND priority = l.level AND concurrency_key > coalesce(t.key, '')
                ORDER BY concurrency_key LIMIT 1
            )
            UNION ALL SELECT (
                SELECT concurrency_key FROM flows
                WHERE {KEYED} AND queue = l.queue AND pool = l.definition AND (claims > 0) = l.begun
                    AND priority = l.level AND concurrency_key > behind.key
                ORDER BY concurrency_key LIMIT 1
            ) FROM behind WHERE behind.key IS NOT NULL
        ),
        before (key) AS (
            (
                SELECT concurrency_key FROM flows
                WHERE {KEYED} AND queue = l.queue AND pool = l.definition AND (claims > 0) = l.begun
                    AND priority = l.level AND concurrency_key <= t.key
                ORDER BY concurrency_key LIMIT 1
            )
            UNION ALL SELECT (
                SELECT concurrency_key FROM flows
                WHERE {KEYED} AND queue = l.queue AND pool = l.definition AND (claims > 0) = l.begun
                    AND priority = l.level AND concurrency_key > before.key AND concurrency_key <= t.key
                ORDER BY concurrency_key LIMIT 1
            ) FROM before WHERE before.key IS NOT NULL
        )
        SELECT key, row_number() OVER () AS place, count(*) OVER () AS number FROM (
            SELECT key FROM (SELECT key FROM behind UNION ALL SELECT key FROM before) AS ring
            WHERE key IS NOT NULL
                AND (l.per_key IS NULL OR l.per_key > (
                    SELECT count(*) FROM flows
                    WHERE owner IS NOT NULL AND concurrency_key IS NOT NULL AND queue = l.queue
                        AND concurrency_key = ring.key
                ))
                AND (l.begun OR l.closed_above IS NULL OR NOT EXISTS (
                    SELECT FROM queue_rates AS r
                    WHERE r.name = l.queue AND r.key = ring.key AND r.level > l.closed_above
                ))
            LIMIT $3
        ) AS open
    ) AS k
    CROSS JOIN LATERAL (
        SELECT {_CANDIDATE}, row_number() OVER (ORDER BY flows.wake_at) AS rank FROM flows
        WHERE {KEYED} AND queue = l.queue AND pool = l.definition AND (claims > 0) = l.begun
            AND priority = l.level AND concurrency_key = k.key
        ORDER BY flows.wake_at LIMIT ($3 + k.number - 1) / k.number
    ) AS f
)
SELECT {_LINE_COLUMNS} FROM plain UNION ALL SELECT {_LINE_COLUMNS} FROM keyed
"""

# How many flows of these keys are owned, and up to which time their rates are used.
KEYS = """
SELECT wanted.queue, wanted.key,
    (
        SELECT count(*) FROM flows
        WHERE owner IS NOT NULL AND concurrency_key IS NOT NULL AND queue = wanted.queue
            AND concurrency_key = wanted.key
    ) AS held,
    (SELECT level FROM queue_rates AS r WHERE r.name = wanted.queue AND r.key = wanted.key) AS level
FROM unnest($1::text[], $2::text[]) AS wanted (queue, key)
"""

# One row if the lease is valid, even if nothing is taken.
TAKE = f"""
WITH holder AS MATERIALIZED (
    SELECT epoch FROM workers WHERE epoch = $1 AND expires_at > now() AND claim_floor <= $3 FOR KEY SHARE
),
taken AS MATERIALIZED (
    SELECT id FROM flows WHERE id = ANY ($2::text[]) AND status = 'ready' AND EXISTS (SELECT FROM holder)
    FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE flows SET status = 'running', owner = $1, claims = claims + 1, claim_number = $3
    WHERE id IN (SELECT id FROM taken) RETURNING *
)
SELECT {selected(FLOW, "claimed")} FROM holder LEFT JOIN claimed ON true
"""

PUT_LEVELS = """
INSERT INTO queue_rates (name, key, level) SELECT * FROM unnest($1::text[], $2::text[], $3::float8[])
ON CONFLICT (name, key) DO UPDATE SET level = EXCLUDED.level
"""
DROP_LEVELS = "DELETE FROM queue_rates WHERE name = ANY ($1::text[]) AND level <= $2"

PUT_TURNS = """
INSERT INTO queue_turns (name, definition, kind, priority, key, turn)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[]) ORDER BY 1, 2, 3, 4
ON CONFLICT (name, definition, kind, priority) DO UPDATE SET key = EXCLUDED.key, turn = EXCLUDED.turn
"""
DROP_TURNS = """
DELETE FROM queue_turns AS t USING unnest($1::text[], $2::bigint[]) AS old (name, turn)
WHERE t.name = old.name AND t.turn < old.turn
"""
