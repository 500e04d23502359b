"""`redrive policy`: its commands, and what they share."""
