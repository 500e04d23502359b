"""How long requests and flows hold the event loop: `python -m tests.holds` prints it, case by case."""
