"""One flow in memory: its log, its timers, its commands, and the lifecycle of its attempts."""
