"""Durable storage of flows: one interface, with drivers for memory, SQLite and PostgreSQL."""
