"""Sinks: writers, what stands behind committers, and checkpoint listeners."""
