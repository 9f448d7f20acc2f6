"""Operators on batches of columns."""
