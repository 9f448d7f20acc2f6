"""The directory of what a program keeps: it goes with the program, however that ends."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock._engine.caches.place import CACHES, cache_directory, remove_places
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverKind, LeftoverPlaces
from penstock._engine.storage.opening import open_storage

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000

PROGRAM = """
import os, signal, sys
from penstock._engine.caches.place import cache_directory
cache_directory(sys.argv[1], {}).storage.put("writing/0", b"records")
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def keep(directory: Path, end: str) -> list[Path]:
    """Run a program that keeps something and ends, and return what is there then."""
    subprocess.run([sys.executable, "-c", PROGRAM, str(directory), end], check=end != "killed", timeout=60)
    return sorted((directory / CACHES).iterdir())


def test_what_a_program_keeps_goes_with_its_end(tmp_path: Path) -> None:
    assert keep(tmp_path, "at its end") == []


@pytest.mark.parametrize("by", ["the next program", "penstock clean"])
def test_what_a_killed_program_left_is_found_and_that_of_a_living_one_stays(tmp_path: Path, by: str) -> None:
    places = LeftoverPlaces((str(tmp_path),), local=False)
    (left,) = keep(tmp_path, "killed")
    try:
        if by == "the next program":
            cache_directory(str(tmp_path), {}).storage.put("writing/0", b"records")
            assert not left.exists()
        survey = find_leftovers(places, min_age_ms=-DAY_MS)
        if by == "penstock clean":
            assert [(one.kind, one.path, one.bytes) for one in survey.leftovers] == [
                (LeftoverKind.CACHED_STREAM, str(left), 7)
            ]
            assert not remove_leftovers(survey.leftovers).failed
            assert not left.exists()
        else:
            assert survey.leftovers == ()
    finally:
        remove_places()
    assert list((tmp_path / CACHES).iterdir()) == []


def test_what_programs_of_another_host_keep_is_left_to_that_host(tmp_path: Path) -> None:
    other = tmp_path / CACHES / "another_host-1"
    other.mkdir(parents=True)
    (other / "lock").touch()
    (other / "0").write_bytes(b"records")
    survey = find_leftovers(LeftoverPlaces((str(tmp_path),), local=False), min_age_ms=-DAY_MS)
    assert survey.leftovers == ()
    assert [(one.path, one.reason) for one in survey.unclear] == [
        (str(other), "a program of another host keeps it; look there")
    ]


def test_in_a_bucket_a_day_without_a_change_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = open_storage("memory://kept-in-a-bucket")
    monkeypatch.setattr("penstock._engine.savepoints.survey.open_storage", lambda *_: bucket)
    monkeypatch.setattr("penstock._engine.savepoints.leftovers.open_storage", lambda *_: bucket)
    bucket.put(f"{CACHES}/{'a' * 32}/writing/0", b"records")
    (file,) = bucket.files(CACHES)
    places = LeftoverPlaces((bucket.url,), local=False)
    for age_ms, found in ((DAY_MS // 2, 0), (2 * DAY_MS, 1)):
        survey = find_leftovers(places, min_age_ms=3_600_000, now_ms=file.modified_ms + age_ms)
        assert len(survey.leftovers) == found
    assert not remove_leftovers(survey.leftovers).failed
    assert bucket.files("") == []
