"""A harness of the operator that a piece of a program adds to a stream."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.testing import OperatorHarness, StreamRecord


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (lambda stream: stream, "this piece of a program has: none"),
        (lambda stream: stream.key_by(str), "this piece of a program has: none"),
        (
            lambda stream: stream.map(str).filter(len),
            "this piece of a program has: Map, Filter. Make a harness of each",
        ),
    ],
)
def test_a_piece_of_a_program_has_one_operator(program: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        OperatorHarness.for_stream(program)


def test_batches_of_columns_have_a_timestamp_for_each_record() -> None:
    with OperatorHarness.for_stream(lambda stream: stream.filter(lambda record: record["n"] > 1)) as harness:
        harness.process_batch(pa.RecordBatch.from_pydict({"n": [1, 2]}), [10, 20])
        assert harness.output() == [StreamRecord({"n": 2}, 20)]


@pytest.mark.parametrize("batch_mode", [False, True])
def test_the_operator_is_that_of_the_mode(batch_mode: bool) -> None:
    with OperatorHarness.for_stream(
        lambda s: s.key_by(len).reduce(lambda a, b: a + b), batch_mode=batch_mode
    ) as harness:
        harness.process_elements(["a", "b"])
        harness.end_input()
        assert harness.values() == (["ab"] if batch_mode else ["a", "ab"])
