"""Operators, which run the nodes of a chain on batches of records, without Spark, driver or rows."""
