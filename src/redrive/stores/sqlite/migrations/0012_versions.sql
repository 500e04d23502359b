-- Flows that are pinned to a version of the code are a pool of their own, which only workers of that version claim.
ALTER TABLE flows ADD COLUMN pool TEXT GENERATED ALWAYS AS (definition || coalesce(' @' || version, '')) VIRTUAL;
ALTER TABLE workers ADD COLUMN version TEXT NOT NULL DEFAULT '';  -- of the code; '' where the worker names none

DROP INDEX flows_ready;
DROP INDEX flows_begun;
DROP INDEX flows_keyed;
DROP INDEX flows_waiting;
CREATE INDEX flows_ready ON flows (queue, pool, priority DESC, wake_at)
WHERE status = 'ready' AND concurrency_key IS NULL;
CREATE INDEX flows_begun ON flows (queue, pool, priority DESC, wake_at)
WHERE status = 'ready' AND concurrency_key IS NULL AND claims > 0;
CREATE INDEX flows_keyed ON flows (queue, pool, (claims > 0), priority DESC, concurrency_key, wake_at)
WHERE status = 'ready' AND concurrency_key IS NOT NULL;
CREATE INDEX flows_waiting ON flows (queue, pool, wake_at) WHERE status = 'waiting';
