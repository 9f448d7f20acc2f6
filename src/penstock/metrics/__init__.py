"""Metrics that a function keeps about itself (``pyflink.metrics``)."""

from penstock.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
