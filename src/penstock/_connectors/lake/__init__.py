"""Tables of a lake: Delta and Iceberg."""
