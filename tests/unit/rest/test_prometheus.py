"""The text for Prometheus, whatever users call their metrics."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from tests.unit.rest.fakes import JOB, Api, FakeControl, job

from penstock._engine.gateway.job_view import SubtaskView

SAMPLE = re.compile(r'flink_[a-zA-Z0-9:_]+\{([a-z_]+="[a-zA-Z0-9:_]*",?)*\} [-+0-9a-zA-Z.]+')
COMMENT = re.compile(r"# (HELP|TYPE) flink_[a-zA-Z0-9:_]+ [ -~]+")


@pytest.mark.parametrize(
    "name",
    [
        "a\nflink_forged 1", "back\\slash", 'quo"te', "{curly}", "tab\tand\x00\x7f", "päckchen", "\ud800",
        "\u2028x", "", "# HELP",
    ],
)  # fmt: skip
def test_no_name_forges_a_line(name: str) -> None:
    subtask = SubtaskView(metrics={"read": {name: 3.0}})
    view = replace(job(), name=name, subtasks=((subtask, subtask), (SubtaskView(), SubtaskView())))
    text = Api(FakeControl(view)).ask("GET", "/metrics").text
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        assert (COMMENT if line.startswith("#") else SAMPLE).fullmatch(line), line
    assert "flink_forged" not in [line.partition("{")[0].partition(" ")[0] for line in text.split("\n")]


def test_names_that_are_one_name_here_give_one_sample() -> None:
    subtask = SubtaskView(
        metrics={"read": {"a-b": 1, "a_b": 2, "most": math.inf, "least": -math.inf, "none": math.nan}}
    )
    view = replace(job(), subtasks=((subtask, subtask), (SubtaskView(), SubtaskView())))
    lines = Api(FakeControl(view)).ask("GET", "/metrics").text.splitlines()
    samples = [line for line in lines if line.startswith("flink_taskmanager_job_task_operator_a_b{")]
    assert [line.rpartition(" ")[2] for line in samples] == ["1.0", "1.0"]  # one for each subtask
    assert len({line.partition(" ")[0] for line in lines if not line.startswith("#")}) == len(
        [line for line in lines if not line.startswith("#")]
    )
    for name, shown in (("most", "+Inf"), ("least", "-Inf"), ("none", "NaN")):  # as Flink's reporter writes them
        assert any(line.endswith(f" {shown}") and f"_{name}{{" in line for line in lines)
    assert any(JOB in line for line in lines)
