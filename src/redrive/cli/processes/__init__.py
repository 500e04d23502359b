"""Long-running commands: worker and server processes, the supervisor, and a flow run in the foreground."""
