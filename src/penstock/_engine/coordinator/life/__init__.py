"""The life of a job: its start, failures, savepoints and end."""
