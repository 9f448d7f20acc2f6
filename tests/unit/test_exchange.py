"""Which tests are left out of a pipelined run: each line of the table names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.kit.exchange import BLOCKING, LEFT_OUT, PIPELINED, VARIABLE, VARIABLES, why_left_out, with_exchange

from penstock.common import Configuration
from penstock.common.option_table import CHECKPOINTING_INTERVAL
from penstock.common.task_options import EXCHANGE, is_pipelined
from penstock.common.time import Duration

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_exists(name: str) -> None:
    file, _, test = name.partition("::")
    text = (ROOT / file).read_text()
    assert re.search(rf"^def {test.partition('[')[0]}", text, re.MULTILINE) if test else "\ndef test_" in text


def test_table_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, BLOCKING)
    assert why_left_out("tests/fault/test_batch_kill.py::test_any") is None
    monkeypatch.setenv(VARIABLE, PIPELINED)
    assert "batch jobs, which it refuses" in str(why_left_out("tests/fault/test_batch_kill.py::test_any"))
    assert why_left_out("tests/fault/test_kill.py::test_any") is None


def test_what_is_pipelined_is_left_out_on_an_older_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, BLOCKING)
    assert why_left_out("tests/spark/test_stop.py::test_any[pipelined-True]") is None
    monkeypatch.setattr("tests.kit.exchange.version", lambda _: "4.2.1")
    assert "came with 4.3" in str(why_left_out("tests/spark/test_stop.py::test_any[pipelined-True]"))
    assert why_left_out("tests/spark/test_stop.py::test_any[blocking-True]") is None


def test_jobs_of_a_pipelined_run_have_its_exchange_where_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Configuration().set(CHECKPOINTING_INTERVAL, Duration.of_seconds(1))
    monkeypatch.delenv("PENSTOCK_EXCHANGE", raising=False)
    assert not is_pipelined(with_exchange(settings))
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    assert is_pipelined(with_exchange(settings))
    assert not is_pipelined(with_exchange(Configuration()))
    assert not is_pipelined(with_exchange(Configuration(settings).set(EXCHANGE, "blocking")))
    assert VARIABLES["PENSTOCK_EXCHANGE"] == PIPELINED
