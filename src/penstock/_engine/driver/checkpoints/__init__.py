"""Performs what concerns checkpoint storage: records, savepoints, what is deleted."""
