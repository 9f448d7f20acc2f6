"""The vocabulary: what programs and connectors name, and the engine knows. There is nothing behind it."""
