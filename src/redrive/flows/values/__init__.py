"""Arguments and results as JSON, encoded and decoded by their type hints."""
