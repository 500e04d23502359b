"""`redrive policy`: one file per command."""
