"""Carry out one attempt: a coroutine in the event loop, a function in a thread or a process, or a request over HTTP."""
