"""Tests of durable definitions."""
