"""The commands: a module for each, and a folder for each group with several."""
