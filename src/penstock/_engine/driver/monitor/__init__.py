"""Observes a running job, and shows its figures."""
