"""The content of a checkpoint, how an epoch changes it, and how long it is kept."""
