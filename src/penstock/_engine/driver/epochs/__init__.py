"""Performs what concerns epochs: runs them, and calls enumerators and committers."""
