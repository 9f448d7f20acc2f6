"""Operators that call a user's function for each record: map to process, reduce, broadcast."""
