"""The worker: claims flows, runs their attempts, keeps its lease, reads the inbox, and recovers lost flows."""
