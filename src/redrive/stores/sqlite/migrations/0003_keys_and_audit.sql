-- Keys may expire, say when they were last used, and be limited to queues and definitions.
ALTER TABLE access_keys ADD COLUMN queues TEXT NOT NULL DEFAULT '[]';         -- a JSON array; empty: all
ALTER TABLE access_keys ADD COLUMN definitions TEXT NOT NULL DEFAULT '[]';    -- a JSON array; empty: all
ALTER TABLE access_keys ADD COLUMN expires_at REAL;
ALTER TABLE access_keys ADD COLUMN used_at REAL;

-- The role read no longer shows payloads. Keys that could see them keep that.
UPDATE access_keys SET role = 'read:payload' WHERE role = 'read';

-- Who did what to keys, the catalogue, queues and flows.
CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    origin TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX audit_log_at ON audit_log (at);
