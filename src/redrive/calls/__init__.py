"""Guard one call: decorator, attempt iterator, fallbacks, adapters for HTTP clients."""
