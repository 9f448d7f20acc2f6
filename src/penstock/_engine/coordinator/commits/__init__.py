"""What follows from a completed checkpoint: sinks commit, and the program gets its output."""
