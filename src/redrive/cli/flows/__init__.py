"""`redrive flows`: one file per command."""
