"""Operators behind a committer on Spark, as a stream and as a batch job."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.lifecycle.sink import FolderSink, published
from tests.unit.driver.life.post_commit_jobs import Answers, ToldSink, check_told

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_they_get_what_is_committed_once_and_a_sink_behind_them_commits_it(tmp_path: Path, mode: str) -> None:
    configuration = {
        "execution.runtime-mode": mode,
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    env.set_parallelism(2)
    told = ToldSink(tmp_path / "told", FolderSink(tmp_path / "told-of-told"), Answers())
    sink = ToldSink(tmp_path / "out", told, Answers(later=frozenset({7})))
    env.from_collection(list(range(1_000))).rebalance().sink_to(sink).uid("out")
    env.execute("behind the committer")
    assert published(tmp_path / "out") == Counter(range(1_000))
    check_told(tmp_path / "out", tmp_path / "told")
    check_told(tmp_path / "told", tmp_path / "told-of-told")
