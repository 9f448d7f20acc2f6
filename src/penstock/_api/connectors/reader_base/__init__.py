"""The parts of :mod:`penstock.datastream.connectors.reader_base`."""
