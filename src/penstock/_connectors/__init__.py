"""The built-in connectors: splits, enumerators, readers, writers, committers. Each is an ordinary connector."""
