"""Durable definitions, sans-IO: events, history, commands, and the drivers of workflows, graphs, scripts and jobs."""
