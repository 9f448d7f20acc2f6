"""Savepoints that earlier versions wrote are read, and jobs go on from them. What is in `data` never changes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.unit.savepoints import jobs
from tests.unit.savepoints.jobs import environment, run, totals
from tests.upgrade.make import DATA, KINDS, NUMBERS

from penstock._engine.protocol.metadata import FORMAT_VERSION
from penstock.errors import UnsupportedFormatError
from penstock.savepoint import Savepoint

FORMATS = sorted(path.name for path in DATA.iterdir() if path.name.removeprefix("format-").isdecimal())


@pytest.fixture(params=FORMATS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / request.param, tmp_path / "old"))


def test_every_format_has_a_savepoint() -> None:
    assert {f"format-{number}" for number in range(1, FORMAT_VERSION + 1)} <= set(FORMATS)


def test_all_kinds_of_state_are_read(old: Path) -> None:
    savepoint = Savepoint.open(str(old), classes=None)
    assert savepoint.verify().damaged == ()
    read = {split.subtask: split.split.next for split in savepoint.source_splits("numbers")}
    numbers = [*range(read[0]), *range(NUMBERS // 2, read[1])]
    assert {entry.key: entry.value for entry in savepoint.keyed_state("totals", "total")} == {
        ("even", 0): sum(number for number in numbers if number % 2 == 0),
        ("odd", 1): sum(number for number in numbers if number % 2 == 1),
    }
    assert {(entry.key, entry.window): entry.value for entry in savepoint.windows("windows")} == {
        (rest, (0, 10**9)): sum(number for number in numbers if number % 3 == rest) for rest in range(3)
    }
    assert {timer.timestamp for timer in savepoint.timers("totals")} == {10**12 + number for number in range(7)}
    assert sorted(item.value for item in savepoint.list_state("waiting", "own")) == [0, 1, 2, 3, 4]
    assert sorted(item.value for item in savepoint.list_state("waiting", "shared")) == [-4, -3, -2, -1, 0]
    assert {entry.key: entry.value for entry in savepoint.broadcast_state("limits", "limits")} == {
        1: 10,
        "two": (2, 0.5),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [number for number in FORMATS if int(number.rpartition("-")[2]) >= 3])
def test_kinds_of_keyed_state_are_read_by_the_entry(number: str, kind: str) -> None:
    savepoint = Savepoint.open(str(DATA / number), classes=None)
    found = {
        (entry.key, getattr(entry, "map_key", None)): entry.value for entry in savepoint.keyed_state("totals", kind)
    }
    held: dict[Any, Any] = {}
    for key, value in KINDS[kind].items():
        held |= {(key, map_key): each for map_key, each in value.items()} if kind == "map" else {(key, None): value}
    assert found == held


@pytest.mark.parametrize("parallelism", [2, 3])
def test_job_goes_on_from_it(old: Path, tmp_path: Path, parallelism: int) -> None:
    env = environment(parallelism, recover=str(old), checkpoints=str(tmp_path / "checkpoints"), ignore="true")
    totals(env, NUMBERS)
    driver, _ = run(env, tmp_path)
    assert dict(item for item in jobs.SEEN if len(item) == 2) == {
        ("even", 0): sum(range(0, NUMBERS, 2)),
        ("odd", 1): sum(range(1, NUMBERS, 2)),
    }
    savepoint = Savepoint.open(str(old), classes=None)
    before = sum(entry.value for entry in savepoint.keyed_state("totals", "total"))
    if savepoint.operator("totals").accumulators:  # format 1 is from before there were any
        before = 0
    assert driver.accumulators() == {"added": sum(range(NUMBERS)) - before}


def test_newer_format_is_refused_by_its_number_and_says_what_helps(old: Path, tmp_path: Path) -> None:
    metadata = old / "_metadata"
    newer = f'"format": {FORMAT_VERSION + 1}'.encode()
    metadata.write_bytes(re.sub(rb'"format": \d+', newer, metadata.read_bytes(), count=1))
    env = environment(2, recover=str(old), checkpoints=str(tmp_path / "checkpoints"))
    totals(env, NUMBERS)
    for start in (lambda: run(env, tmp_path), lambda: Savepoint.open(str(old), classes=None)):
        with pytest.raises(UnsupportedFormatError, match=f"format {FORMAT_VERSION + 1}.*a newer one"):
            start()
