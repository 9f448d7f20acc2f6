"""The parts of :mod:`penstock.datastream.connectors.file_system`."""
