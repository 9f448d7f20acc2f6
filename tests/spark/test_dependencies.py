"""What a program brings to its tasks is there where its functions run, and only for its own jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit import brought

from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def finds() -> Callable[[Any], list[object]]:
    names: dict[str, Any] = {}
    exec(brought.FINDS, names)
    return names["finds"]


def directory_of_tasks() -> str:
    env = StreamExecutionEnvironment.get_execution_environment()
    return next(iter(env.from_collection([1]).map(lambda _: os.getcwd()).execute_and_collect()))  # noqa: PTH109


def test_functions_import_and_open_what_the_program_brought(tmp_path: Path) -> None:
    brought.make(tmp_path)
    before = directory_of_tasks()
    for _ in range(2):  # the second time nothing is installed
        env = StreamExecutionEnvironment.get_execution_environment()
        brought.bring(env, tmp_path)
        assert list(env.from_collection([1]).map(finds()).execute_and_collect()) == [brought.FOUND]
    assert directory_of_tasks() == before


def test_a_session_that_runs_keeps_its_python_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_python_executable("/no/such/python")
    assert list(env.from_collection([1]).execute_and_collect()) == [1]
    assert "python.executable = /no/such/python has no effect: the Spark session runs tasks with" in caplog.text
