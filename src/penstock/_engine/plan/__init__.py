"""The execution plan: which level and slot runs what, as frozen data."""
