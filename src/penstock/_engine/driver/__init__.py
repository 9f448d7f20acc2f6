"""Performs what the coordinator decides: the main loop, its threads, the clock, and calls into user code."""
