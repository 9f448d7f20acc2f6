"""Windowed streams, and what is said of their windows."""
