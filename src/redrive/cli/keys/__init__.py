"""`redrive keys`: one file per command."""
