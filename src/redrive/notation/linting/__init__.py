"""The policy linter: its rules, their findings and the advice that goes with each."""
