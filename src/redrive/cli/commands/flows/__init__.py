"""`redrive flows`: its commands, and what they share."""
