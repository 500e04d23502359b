"""What the HTTP client integrations share, sans-IO."""
