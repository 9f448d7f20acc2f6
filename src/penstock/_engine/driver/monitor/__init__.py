"""Looks on while a job runs, and shows it."""
