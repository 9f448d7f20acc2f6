"""Windowed streams and their settings."""
