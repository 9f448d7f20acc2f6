"""The data that crosses a process boundary or a restart: keys, rows, acks, metadata, and their codecs."""
