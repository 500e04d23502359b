"""What went wrong, seen in tests: real errors, and what is said about them."""
