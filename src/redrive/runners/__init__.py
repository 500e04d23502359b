"""Carry out one attempt: a coroutine, a function in a thread, a function in a process of its own."""
