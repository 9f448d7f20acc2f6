"""Turns the state of a checkpoint into the state of the job that starts from it."""
