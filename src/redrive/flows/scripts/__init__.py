"""The script language: flows as text. Parsed, formatted and checked here; interpreted on the loop of workflows."""
