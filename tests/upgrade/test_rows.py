"""Savepoints of all formats with keys that are or hold rows with names, and with windows that have fired."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.unit.savepoints import jobs
from tests.unit.savepoints.jobs import environment, run
from tests.upgrade.make import DATA
from tests.upgrade.rows import NUMBERS, SIZE, program, rest

from penstock.errors import UnknownStateError
from penstock.savepoint import KeyedEntry, Savepoint, SavepointWriter

SAVEPOINTS = sorted(path.name for path in DATA.glob("format-*-rows"))


@pytest.fixture(params=SAVEPOINTS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / request.param, tmp_path / "old"))


def numbers_read(old: Path) -> list[int]:
    read = {
        split.subtask: split.split.next for split in Savepoint.open(str(old), classes=None).source_splits("numbers")
    }
    return [*range(read[0]), *range(NUMBERS // 2, read[1])]


def check(old: Path, place: Path, parallelism: int) -> None:
    """Go on from a savepoint to the end, and compare with what a job without a stop gives."""
    before = numbers_read(old)
    later = set(range(NUMBERS)) - set(before)
    env = environment(parallelism, recover=str(old), checkpoints=str(place / "checkpoints"))
    program(env)
    run(env, place)
    seen = jobs.SEEN
    totals = {key: (total, tens) for what, key, total, tens in (s for s in seen if s[0] == "total")}
    assert totals == {
        rest(part): (sum(range(part, NUMBERS, 3)), sum(n for n in range(part, NUMBERS, 3) if n % 10 == 0))
        for part in range(3)
    }
    reduced = {part: max(v for _, p, v in (s for s in seen if s[0] == "reduced") if p == part) for part in range(3)}
    assert reduced == {part: sum(range(part, NUMBERS, 3)) for part in range(3)}
    check_windows([s[1:] for s in seen if s[0] == "window"], before, later)


def check_windows(fired: list[tuple[Any, ...]], before: list[int], later: set[int]) -> None:
    """A window that had all of its records comes out once if it had not fired, else never; any other is whole last."""
    watermark = max(number for number in before if number < NUMBERS // 2)
    for start in range(0, NUMBERS, SIZE):
        for part in range(3):
            inside = [number for number in range(start, start + SIZE) if number % 3 == part]
            results = [total for key, at, total, _ in fired if (key, at) == (rest(part), start)]
            if later.isdisjoint(inside):
                assert results == ([] if start + SIZE - 1 <= watermark else [sum(inside)]), (part, start)
            else:
                assert results[-1] == sum(inside), (part, start)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_job_with_rows_as_keys_goes_on_and_windows_that_had_fired_do_not_again(
    old: Path, tmp_path: Path, parallelism: int
) -> None:
    check(old, tmp_path, parallelism)


@pytest.mark.parametrize("parallelism", [2, 3])
def test_the_same_through_a_savepoint_that_was_written_anew(old: Path, tmp_path: Path, parallelism: int) -> None:
    writer = SavepointWriter.from_existing(str(old), classes=None)
    for uid, state in (("totals", "total"), ("windows", "window-contents"), ("reduced", "reduce")):
        writer.transform_keyed_state(uid, state, lambda key, value: value)
    written = Path(writer.write(str(tmp_path / "written")))
    check(written, tmp_path, parallelism)


def test_windows_that_are_put_in_place_of_others_have_yet_to_fire_and_those_that_stay_keep_what_has_fired(
    old: Path, tmp_path: Path
) -> None:
    writer = SavepointWriter.from_existing(str(old), classes=None)
    stays = writer.transform_keyed_state("windows", "window-contents", lambda key, value: value)
    fired = Savepoint.open(stays.write(str(tmp_path / "stays")), classes=None).keyed_state("windows", "window-fired")
    watermark = max(number for number in numbers_read(old) if number < NUMBERS // 2) - 1
    whole = (watermark + 1) // SIZE * SIZE
    assert {entry.window for entry in fired} == {(start, start + SIZE) for start in range(0, whole, SIZE)} != set()
    writer = SavepointWriter.from_existing(stays._existing.path, classes=None)  # type: ignore[union-attr]
    entries = [KeyedEntry(rest(0), [1, 2], (0, SIZE))]
    writer.set_keyed_state("windows", "window-contents", entries, kind="window-elements")
    replaced = Savepoint.open(writer.write(str(tmp_path / "replaced")), classes=None)
    assert [entry.key for entry in replaced.windows("windows")] == [rest(0)]
    with pytest.raises(UnknownStateError, match="window-fired"):
        replaced.keyed_state("windows", "window-fired")
