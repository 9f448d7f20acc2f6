"""Async functions: their calls, the order of their results, and the thread that runs them."""
