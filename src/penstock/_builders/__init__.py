"""The parts of :mod:`penstock.datastream.data_stream`."""
