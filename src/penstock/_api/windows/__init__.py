"""What windows are made of: assigners, triggers, evictors, and the windows themselves."""
