"""Interval joins."""
