"""Keyed state: tables and timers in memory, deltas and snapshots, the committed version on local disk."""
