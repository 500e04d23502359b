"""The durable engine: worker, journal, leases, timers, mail, recovery, dead letters."""
