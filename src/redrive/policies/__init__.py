"""What to do about a failure: the policy, and the one function that decides."""
