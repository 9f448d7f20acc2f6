"""The steps after a completed checkpoint: sinks commit, and the program gets its output."""
