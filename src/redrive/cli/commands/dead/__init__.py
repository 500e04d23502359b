"""`redrive dead`: its commands, and what they share."""
