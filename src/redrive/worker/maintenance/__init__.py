"""Keep the lease, reap expired ones, and prune finished flows."""
