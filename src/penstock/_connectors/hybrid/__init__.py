"""A source that reads several sources, one after the other."""
