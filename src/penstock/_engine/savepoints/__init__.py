"""Inspects, reads, writes and deletes savepoints and checkpoints without their job; finds leftovers of dead jobs."""
