"""`redrive doctor`: check a store, or Python files."""
