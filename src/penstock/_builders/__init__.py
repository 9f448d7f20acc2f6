"""Streams and the environment: the classes that :mod:`penstock.datastream.data_stream` and its siblings show."""
