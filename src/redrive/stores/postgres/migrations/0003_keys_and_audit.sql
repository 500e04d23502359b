-- Keys may expire, say when they were last used, and be limited to queues and definitions.
ALTER TABLE access_keys ADD COLUMN queues text[] NOT NULL DEFAULT '{}';         -- empty: all
ALTER TABLE access_keys ADD COLUMN definitions text[] NOT NULL DEFAULT '{}';    -- empty: all
ALTER TABLE access_keys ADD COLUMN expires_at timestamptz;
ALTER TABLE access_keys ADD COLUMN used_at timestamptz;

-- The role read no longer shows payloads. Keys that could see them keep that.
UPDATE access_keys SET role = 'read:payload' WHERE role = 'read';

-- Who did what to keys, the catalogue, queues and flows.
CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    origin text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    detail text NOT NULL
);
CREATE INDEX audit_log_at ON audit_log (at);
