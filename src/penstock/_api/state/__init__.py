"""The parts of :mod:`penstock.datastream.state`."""
