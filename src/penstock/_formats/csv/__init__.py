"""The parts of :mod:`penstock.datastream.formats.csv`."""
