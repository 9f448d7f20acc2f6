"""The program's side of a job: the client, its results, signals, and resumption."""
