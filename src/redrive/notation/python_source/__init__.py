"""Policies in Python source: the retry settings of other libraries, found and read without running the code."""
