"""What went wrong: a failure, its category, and why it is in that category."""
