"""Errors of database clients, and the SQLSTATEs they report."""
