"""Progress by epochs: each epoch is one Spark job and one checkpoint."""
