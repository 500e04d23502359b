"""Schedules: when flows begin by themselves. Pure: the time comes in as an argument."""
