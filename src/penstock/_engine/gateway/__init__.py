"""The read models of a job, as plain data, and its control interface."""
