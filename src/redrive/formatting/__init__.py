"""Times, durations, counts, calls and errors as text for people: on one line, bounded, without secrets."""
