"""Savepoints and checkpoints at rest, without the job: looked into, read, written, deleted, and what dead jobs left."""
