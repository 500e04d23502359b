"""Flows in one SQLite file: nothing to set up, shared by the processes of one machine."""
