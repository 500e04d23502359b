"""Tests of graphs and of the planner."""
