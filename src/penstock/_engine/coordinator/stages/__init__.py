"""The progress of a batch job by stages."""
