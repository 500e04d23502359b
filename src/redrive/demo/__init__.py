"""`redrive demo`: an order that survives a flaky service and a killed worker, on SQLite."""
