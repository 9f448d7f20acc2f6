"""Checkpoint storage: conditional and durable writes, reading, listing, and the names below a checkpoint directory."""
