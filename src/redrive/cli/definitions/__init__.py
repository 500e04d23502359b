"""Find and load the definitions that the command line names."""
