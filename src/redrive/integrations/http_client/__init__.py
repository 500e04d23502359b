"""The parts that the HTTP client integrations share."""
