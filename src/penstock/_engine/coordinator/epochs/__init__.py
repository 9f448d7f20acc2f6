"""Progress by epochs: each one is a job of Spark and a checkpoint."""
