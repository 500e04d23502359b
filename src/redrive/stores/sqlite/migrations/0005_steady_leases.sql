-- When the lease runs out by the machine's monotonic clock, which nobody sets. `expires_at` tells people, and judges
-- where no lock says that the holder runs on this machine, since it was last started.
ALTER TABLE workers ADD COLUMN lapses_at REAL;
