"""`redrive dead`: one file per command."""
