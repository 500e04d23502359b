-- Workers of the version before may go on while this is applied: what they write is as before.

ALTER TABLE retry_queue
    ADD COLUMN retryable boolean NOT NULL DEFAULT true,
    ADD COLUMN dependencies_satisfied boolean NOT NULL DEFAULT true;

CREATE VIEW waiting_retries AS
SELECT
    to_char(scheduled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') AS next_attempt_utc,
    flow_id,
    item,
    step,
    queue,
    attempt_number,
    max_retries,
    retry_kind,
    backoff_kind,
    backoff_base_delay_ms,
    timeout_seconds
FROM retry_queue
WHERE status = 'waiting'
ORDER BY scheduled_at;

-- The same rule as retry/eligibility.py. Before the next attempt, or the one under way, `attempt_number` were made.
CREATE VIEW retry_eligibility AS
SELECT
    flow_id,
    item,
    step,
    queue,
    status,
    attempts,
    max_attempts,
    retryable,
    retry_eligible,
    next_retry_at,
    dependencies_satisfied,
    status = 'waiting' AND retry_eligible AND dependencies_satisfied AND due AS ready,
    CASE
        WHEN status <> 'waiting' THEN 'an attempt is under way'
        WHEN NOT retry_eligible AND NOT retryable THEN 'not retryable'
        WHEN NOT retry_eligible THEN 'no attempts left'
        WHEN NOT dependencies_satisfied THEN 'waits for its dependencies'
        WHEN NOT due THEN 'waits for its time'
        WHEN attempts = 0 THEN 'first execution'
        ELSE 'may be retried'
    END AS reason
FROM (
    SELECT
        *,
        attempts = 0 OR (retryable AND (max_attempts IS NULL OR attempts < max_attempts)) AS retry_eligible,
        next_retry_at IS NULL OR next_retry_at <= now() AS due
    FROM (
        SELECT
            *,
            attempt_number + (status = 'dispatched')::int AS attempts,
            CASE WHEN max_retries IS NOT NULL THEN least(max_retries, 9223372036854775806) + 1 END AS max_attempts,
            CASE WHEN status = 'waiting' THEN scheduled_at END AS next_retry_at
        FROM retry_queue
    ) AS counted
) AS judged;

CREATE TABLE step_catalogue (
    name text COLLATE "C" PRIMARY KEY,
    body json NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE access_keys (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    role text NOT NULL,
    digest text NOT NULL,                  -- the key itself is kept nowhere
    created_at timestamptz NOT NULL
);
