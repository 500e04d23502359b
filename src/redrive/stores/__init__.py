"""Where flows are kept: one interface, and behind it memory, SQLite and PostgreSQL."""
