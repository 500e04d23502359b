"""One module per notation: how its keys or its text become a policy, and how a policy is written in it."""
