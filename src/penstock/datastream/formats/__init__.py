"""Formats of files and messages (``pyflink.datastream.formats``)."""
