"""Every file that a start or a look into a savepoint reads, damaged: it is named, and nothing starts fresh."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.savepoints.jobs import EPOCH_RECORDS, environment, run, savepoint_of, totals

from penstock._engine.protocol.metadata import handles_of
from penstock._engine.savepoints.located import locate
from penstock.errors import CorruptCheckpointError, NoCheckpointError, RestoreError, UnknownStateError
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = 20_000


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def another(file: Path) -> None:
    """Put a whole file of the same kind, of another savepoint, in its place."""
    writer = SavepointWriter.new().set_keyed_state("totals", "total", {("even", 0): 1})
    other = Path(writer.set_list_state("totals", "own", [1]).write(str(file.parents[1] / "another")))
    if file.name == "_metadata":
        file.write_bytes((other / "_metadata").read_bytes())
    else:
        [found] = [part for part in other.iterdir() if part.name != "_metadata" and part.suffix == file.suffix]
        file.write_bytes(found.read_bytes())


DAMAGES: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "empty": empty,
    "cut-short": cut_short,
    "cut-in-half": cut_in_half,
    "flipped": flipped,
    "zeros": zeros,
    "another": another,
}
FILES = ["metadata", "snapshot", "delta", "operator"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a savepoint, and the retained checkpoint of a cancelled job, whose state is in deltas."""
    place = tmp_path_factory.mktemp("whole")
    path = savepoint_of(place / "stopped", numbers=NUMBERS, inline="0 b")
    again = SavepointWriter.from_existing(path).transform_keyed_state("totals", "total", lambda _, value: value)
    again.write(str(place / "savepoint"))
    kept = {"checkpoints": str(place / "cancelled" / "checkpoints"), "retention": "RETAIN_ON_CANCELLATION"}
    env = environment(2, **kept, inline="0 b", recover="latest")
    totals(env, 5 * 2 * EPOCH_RECORDS)  # more than its two readers read until then
    run(env, place / "cancelled", cancel_in=4)
    return place


@pytest.fixture
def place(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "place", ignore=shutil.ignore_patterns("stopped", "state")))


def record_with(place: Path, kind: str) -> Path:
    """Return the directory of a record that has a file of that kind."""
    return place / "savepoint" if kind == "snapshot" else newest(place)


def newest(place: Path) -> Path:
    """Return the newest checkpoint with state."""
    paths = sorted(place.glob("cancelled/checkpoints/*/chk-*"), key=lambda path: int(path.name.partition("-")[2]))
    return next(path for path in reversed(paths) if locate(str(path)).entry.snapshot is not None)


def file_of(record: Path, kind: str) -> Path:
    if kind == "metadata":
        return record / "_metadata"
    located = locate(str(record))
    names = [handle.path for handle in handles_of(located.snapshot) if handle.kind == kind]
    return Path(located.storage.full_path(min(name for name in names if name is not None)).removeprefix("file://"))


def start(place: Path, **settings: str) -> None:
    env = environment(2, **settings)
    totals(env, NUMBERS)
    run(env, place)


def read_all(record: Path) -> None:
    savepoint = Savepoint.open(str(record))
    for uid, name in (("totals", "total"), ("windows", "window-contents")):
        list(savepoint.keyed_state(uid, name))
    list(savepoint.timers("totals"))
    list(savepoint.list_state("waiting", "own"))


def rewrite(record: Path, place: Path) -> None:
    writer = SavepointWriter.from_existing(str(record)).set_list_state("waiting", "more", [1])
    for uid in ("totals", "windows"):
        writer.set_keyed_state(uid, "more", {1: 1})
    writer.write(str(place / "rewritten"))


USES: dict[str, Callable[[Path, Path], Any]] = {
    "start": lambda record, place: start(place, recover=str(record), checkpoints=str(place / "new")),
    "read": lambda record, _: read_all(record),
    "rewrite": rewrite,
}


#: A start takes its time: it sees one damage of each sort.
CELLS = [
    (kind, use, damage)
    for kind in FILES
    for use in USES
    for damage in DAMAGES
    if use != "start" or damage in {"missing", "empty", "flipped", "another"}
]


@pytest.mark.parametrize(("kind", "use", "damage"), CELLS)
def test_damaged_file_is_named_and_nothing_begins_without_it(place: Path, kind: str, use: str, damage: str) -> None:
    record = record_with(place, kind)
    file = file_of(record, kind)
    DAMAGES[damage](file)
    is_gone = kind == "metadata" and damage == "missing"
    named = file.name if kind != "metadata" else "_metadata|totals-0-1" if damage == "another" else record.name
    with pytest.raises(RestoreError, match=named) as caught:
        USES[use](record, place)
    assert isinstance(caught.value, (UnknownStateError, NoCheckpointError) if is_gone else CorruptCheckpointError)
    # What other subtasks did meanwhile is void: no checkpoint came of it.
    assert [path for path in place.glob("new/*/chk-*") if locate(str(path)).entry.snapshot is not None] == []
    assert not list((place / "rewritten").glob("*"))


@pytest.mark.parametrize("kind", FILES)
def test_file_that_is_whole_is_none_of_these_errors(place: Path, kind: str) -> None:
    record = record_with(place, kind)
    assert file_of(record, kind).stat().st_size > 0
    read_all(record)
    rewrite(record, place)


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "missing"])
def test_newest_record_that_is_damaged_is_named_by_a_start_with_latest(place: Path, damage: str) -> None:
    records = sorted(place.glob("cancelled/checkpoints/*/chk-*"), key=lambda path: int(path.name.partition("-")[2]))
    DAMAGES[damage](records[-1] / "_metadata")
    with pytest.raises(CorruptCheckpointError, match=records[-1].name):
        start(place, recover="latest", checkpoints=str(place / "cancelled" / "checkpoints"))
