"""What a program gets that collects a keyed stream: the pairs that PyFlink gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.without_spark import Cluster

from penstock.common import Row, Types
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [(1, "a"), (2, "b"), (1, "c")]


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_a_keyed_stream_is_collected_with_its_keys(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(tmp_path, workers=1).patch(monkeypatch)
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(RuntimeExecutionMode[mode])
    stream = env.from_collection(PAIRS, Types.TUPLE([Types.INT(), Types.STRING()]))
    keyed = stream.key_by(lambda pair: pair[0])
    with keyed.execute_and_collect() as found:
        assert sorted(found, key=str) == [Row(f0=key, f1=(key, word)) for key, word in sorted(PAIRS)]
    assert len(keyed.execute_and_collect("some", 2)) == 2
    with stream.execute_and_collect() as found:
        assert sorted(found) == sorted(PAIRS)
    with keyed.map(lambda pair: pair[1]).execute_and_collect() as found:
        assert sorted(found) == ["a", "b", "c"]
