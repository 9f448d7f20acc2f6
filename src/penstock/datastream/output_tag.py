"""OutputTag: the name of a side output (``pyflink.datastream.output_tag``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.output_tag import (
    OutputTag,
)

__all__ = [
    "OutputTag",
]

explain(__name__)
