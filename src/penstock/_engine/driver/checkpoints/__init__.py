"""Performs the instructions about checkpoint storage: chain entries, savepoints, deletions."""
