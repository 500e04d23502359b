"""redrive runs work that fails, until it succeeds or until someone knows exactly why it did not."""
