"""Runs epochs, and calls enumerators and committers."""
