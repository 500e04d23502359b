"""The real errors of libraries, and the table that they fill: docs/known-errors.md."""
