"""Operators: what one node of a chain does with batches of records. No Spark, no driver, no rows."""
