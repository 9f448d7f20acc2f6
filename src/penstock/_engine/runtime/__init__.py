"""One level of an epoch inside a Spark task: rows in, subtasks with their chains, rows out. No Spark import here."""
