"""Empty: Django creates tables after `migrate` only for apps that have this module."""
