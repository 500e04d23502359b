"""Flows in PostgreSQL 14 or newer, for a fleet of workers."""
