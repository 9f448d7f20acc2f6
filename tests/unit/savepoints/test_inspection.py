"""What a savepoint or checkpoint says of itself, and what damaged files make of that."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK
from tests.kit.world import World, numbers_job
from tests.unit.savepoints.jobs import cancelled_job, savepoint_of

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata_document import DOCUMENT
from penstock._engine.savepoints.inspection import OperatorInfo, SavepointInfo, inspect
from penstock._engine.savepoints.verification import verify
from penstock.errors import CorruptCheckpointError, UnknownStateError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint with all its state in files."""
    return Path(savepoint_of(tmp_path_factory.mktemp("made"), inline="0 b"))


@pytest.fixture
def savepoint(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "savepoint"))


def operator(info: SavepointInfo, uid: str) -> OperatorInfo:
    return next(operator for operator in info.operators if operator.uid == uid)


def test_job_and_record_are_told(savepoint: Path) -> None:
    info = inspect(str(savepoint))
    assert (info.kind, info.job_name, info.path) == ("savepoint", "totals", str(savepoint))
    assert info.format_version == DOCUMENT.number
    assert len(info.job_id) == 32
    assert 1_000_000 <= info.created_ms <= CLOCK.now_ms()  # which earlier tests have turned
    assert inspect(str(savepoint / "_metadata")) == info


def test_operators_stand_in_the_order_of_the_job_with_what_they_have(savepoint: Path) -> None:
    info = inspect(str(savepoint))
    assert [operator.uid for operator in info.operators if operator.has_state] == [
        *("numbers", "waiting", "totals", "windows"),
    ]
    totals = operator(info, "totals")
    assert (totals.name, totals.parallelism, totals.max_parallelism) == ("KeyedProcess", 2, 128)
    assert [(state.name, state.kind, state.keys) for state in totals.keyed_states] == [
        ("event-time", "timers", 14),
        ("total", "value[int]", 2),
    ]
    [contents] = operator(info, "windows").keyed_states
    assert (contents.kind, contents.keys, contents.windows) == ("window-reduce", 3, 1)
    assert [(state.name, state.mode, state.items) for state in operator(info, "waiting").operator_states] == [
        ("own", "list", 5),
        ("shared", "union", 5),
    ]
    source = operator(info, "numbers").source
    assert source is not None
    assert source.reader_splits == (1, 1)


def test_watermarks_are_those_of_the_vertices(savepoint: Path) -> None:
    marks = [vertex.watermarks for vertex in inspect(str(savepoint)).vertices]
    assert marks == [(998, 2498), (998, 998), (998, 998)]


def test_sizes_are_those_of_the_files(savepoint: Path) -> None:
    info = inspect(str(savepoint))
    files = [path for path in savepoint.iterdir() if not path.name.startswith("_")]
    assert (info.files, info.bytes) == (len(files), sum(path.stat().st_size for path in files))


def test_nothing_is_unpickled(savepoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle, "loads", lambda *_: pytest.fail("unpickled"))
    inspect(str(savepoint), verify=True, count_keys=True)


def test_checkpoint_is_told_as_one_and_counts_keys_behind_deltas_on_demand(tmp_path: Path) -> None:
    job = cancelled_job(tmp_path, epochs=2)
    checkpoint = max(
        (path for path in job.glob("chk-*") if inspect(str(path)).kind == "checkpoint"), key=lambda path: path.name
    )
    lazily, exactly = inspect(str(checkpoint)), inspect(str(checkpoint), count_keys=True)
    assert [state.keys for state in operator(exactly, "totals").keyed_states] == [14, 2]
    assert [state.keys for state in operator(lazily, "totals").keyed_states] == [14, None]


def test_terminal_record_says_how_the_job_ended(tmp_path: Path) -> None:
    savepoint = savepoint_of(tmp_path)
    [job] = (tmp_path / "checkpoints").glob("?" * 32)
    last = max(job.glob("chk-*"), key=lambda path: int(path.name[4:]))
    info = inspect(str(last))
    assert (info.kind, info.savepoint, info.operators) == ("suspended", savepoint, ())


def test_pending_committables_and_finished_subtasks_are_counted(tmp_path: Path) -> None:
    driver, loop = World(numbers_job("inspected"), patience=3).driver(str(tmp_path / "c"))
    epochs: list[Any] = []
    pending: list[int] = []
    perform = loop.perform

    def watched(instruction: Any) -> None:
        if isinstance(instruction, do.RunEpoch):
            epochs.append(instruction)
            infos = [inspect(str(metadata)) for metadata in (tmp_path / "c").rglob("_metadata")]
            pending.extend(found.pending_committables for info in infos for found in info.operators)
            if len(epochs) == 3:
                driver.savepoint(str(tmp_path / "s"), StopMode.DRAIN)
        perform(instruction)

    loop.perform = watched  # type: ignore[method-assign]
    driver.run(loop)
    [savepoint] = (tmp_path / "s").iterdir()
    info = inspect(str(savepoint))
    target = operator(info, "target")
    assert (target.finished_subtasks, target.drained_subtasks) == (2, 2)
    assert max(pending) > 0


# --------------------------------------------------------------------------------------------------------------- damage


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def altered(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("damage", [cut_off, altered, Path.unlink])
def test_every_file_is_verifiable_and_named(savepoint: Path, damage: Callable[[Path], None]) -> None:
    files = sorted(path for path in savepoint.iterdir() if not path.name.startswith("_"))
    assert verify(str(savepoint)).damaged == ()
    for file in files:
        whole = file.read_bytes()
        damage(file)
        assert [found.path for found in verify(str(savepoint)).damaged] == [str(file)]
        with pytest.raises(CorruptCheckpointError, match=file.name):
            inspect(str(savepoint), verify=True)
        file.write_bytes(whole)
    assert verify(str(savepoint)).files == len(files)


def test_file_of_keyed_state_that_is_gone_is_named_without_verifying(savepoint: Path) -> None:
    file = next(savepoint.glob("totals-*"))
    file.unlink()
    with pytest.raises(CorruptCheckpointError, match=file.name):
        inspect(str(savepoint))


def test_altered_metadata_is_named(savepoint: Path) -> None:
    metadata = savepoint / "_metadata"
    own, newer = (b'"format": %d' % number for number in (1, 2))
    metadata.write_bytes(metadata.read_bytes().replace(own, newer, 1))
    with pytest.raises(UnsupportedFormatError, match=r"format 2.*newer"):
        inspect(str(savepoint))


def test_directory_without_metadata_says_what_is_there(savepoint: Path) -> None:
    with pytest.raises(UnknownStateError, match="it has savepoint"):
        inspect(str(savepoint.parent))
    with pytest.raises(UnknownStateError, match="it has nothing at all"):
        inspect(str(savepoint.parent / "nowhere"))
