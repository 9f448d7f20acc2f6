"""The parts of :mod:`penstock.common.conversion`."""
