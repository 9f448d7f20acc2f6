"""A source that calls a function for each record, as fast as wanted (Flink's ``flink-connector-datagen``)."""

from __future__ import annotations

from penstock._connectors.datagen import (
    DataGeneratorSource,
    GeneratorFunction,
    RateLimiterStrategy,
)

__all__ = [
    "DataGeneratorSource",
    "GeneratorFunction",
    "RateLimiterStrategy",
]
