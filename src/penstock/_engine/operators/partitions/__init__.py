"""Full window partitions (FLIP-380)."""
