"""Keyed state: tables and timers in memory over a backend, and their deltas and snapshots."""
