"""Reasons to try a call of an async function again (``pyflink.datastream.async_retry_predicates``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.functions.async_retry import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

__all__ = [
    "empty_result_predicate",
    "exception_type_predicate",
    "has_exception_predicate",
]

explain(__name__)
