"""The built-in connectors, which use only the interfaces that users' connectors have."""
