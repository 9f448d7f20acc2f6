"""Operators of windows: aligned ones, sliding ones in slices, and all others by key."""
