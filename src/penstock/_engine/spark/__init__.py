"""Everything that touches Spark; no other package of Penstock imports pyspark."""
