"""The parts of :mod:`penstock.datastream.connectors.base`: sources, readers, sinks, committers, serializers."""
