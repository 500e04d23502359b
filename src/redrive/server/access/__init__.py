"""Who may do what: API keys, sessions, roles and the audit log."""
