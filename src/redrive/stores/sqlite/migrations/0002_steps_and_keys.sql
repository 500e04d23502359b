ALTER TABLE retry_queue ADD COLUMN retryable INTEGER NOT NULL DEFAULT 1;
ALTER TABLE retry_queue ADD COLUMN dependencies_satisfied INTEGER NOT NULL DEFAULT 1;

ALTER TABLE queue_limits RENAME COLUMN queue TO name;
ALTER TABLE queue_limits RENAME COLUMN most TO "limit";

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
        next_retry_at IS NULL OR next_retry_at <= (julianday('now') - 2440587.5) * 86400.0 AS due
    FROM (
        SELECT
            *,
            attempt_number + (status = 'dispatched') AS attempts,
            min(max_retries, 9223372036854775806) + 1 AS max_attempts,
            CASE WHEN status = 'waiting' THEN scheduled_at END AS next_retry_at
        FROM retry_queue
    )
);

CREATE TABLE step_catalogue (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    updated_at REAL NOT NULL
);

CREATE TABLE access_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    digest TEXT NOT NULL,        -- the key itself is kept nowhere
    created_at REAL NOT NULL
);
