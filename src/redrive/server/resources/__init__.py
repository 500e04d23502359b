"""The endpoints, one file per resource."""
