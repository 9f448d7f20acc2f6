"""The classes of :mod:`penstock.errors`, which is where they are imported from."""
