"""What the API offers, one file for each resource."""
