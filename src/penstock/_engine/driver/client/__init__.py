"""What a program holds of its job: the client, its results, signals, and what runs on without it."""
