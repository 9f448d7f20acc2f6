"""The parts of :mod:`penstock.datastream.functions`."""
