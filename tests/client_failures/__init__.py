"""What redrive does when a real client library meets a server that fails: docs/client-failures.md."""
