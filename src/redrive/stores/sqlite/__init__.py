"""Flows in one SQLite file, which the processes of one machine share; nothing to set up."""
