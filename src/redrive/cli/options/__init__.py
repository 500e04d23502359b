"""Options and arguments that commands share, and how they are read."""
