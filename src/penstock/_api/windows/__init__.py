"""Windows, window assigners, triggers and evictors."""
