"""What the API takes and returns: endpoints, bodies, problems, and the OpenAPI document."""
