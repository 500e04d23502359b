"""`redrive steps`: one file per command."""
