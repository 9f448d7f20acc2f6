"""Sources: what reads, what its records pass through on their way out, and watermarks."""
