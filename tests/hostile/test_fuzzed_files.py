"""Altered files: they lead to an error of ours or to a right answer, and nothing outside of them is touched."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile.fuzzing import fuzzed, inside, odd_text, odd_values
from tests.unit.savepoints.jobs import savepoint_of

from penstock._engine.processes.registry import JobRegistry
from penstock._engine.protocol.metadata_document import DOCUMENT, decode_chain_entry, encode_chain_entry
from penstock._engine.savepoints.disposal import dispose
from penstock._engine.savepoints.inspection import inspect
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverPlaces
from penstock._engine.savepoints.verification import verify
from penstock._engine.state.files import state_file
from penstock._engine.state.files.chunk_columns import Chunk, ChunkOperation
from penstock._engine.state.files.state_file import StateFileWriter, read_index, read_owners, read_state_file
from penstock._engine.state.files.trust import AllowedClasses
from penstock.common.config_check import Setting, checked
from penstock.common.config_loading import FILE_NAME, effective_configuration, outer_settings
from penstock.common.configuration import Configuration
from penstock.common.option_table import KNOWN_KEYS, OPTIONS
from penstock.errors import PenstockError
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Generator

#: Examples here; the first of tests that open dozens of files each.
FEW, MANY = 40, 100


@contextmanager
def ours() -> Generator[None]:
    """Let errors of ours pass, those of savepoints and those of settings; they can be printed."""
    try:
        yield
    except PenstockError as error:
        text = str(error)
        assert not set(text) & set("\x1b\x00\x07")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint with keyed, operator and broadcast state, timers and splits."""
    place = tmp_path_factory.mktemp("whole")
    path = savepoint_of(place, numbers=60, inline="0 b")
    writer = SavepointWriter.from_existing(path)
    writer.set_broadcast_state("totals", "limits", {("a", 1): 2}).set_keyed_state("totals", "by day", {("a", 1.5): [1]})
    return Path(writer.write(str(place / "savepoint")))


def places_in(document: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [way, *(found for key, value in items for found in places_in(value, (*way, key)))]


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """Return a document in which some values are others, are gone, or stand twice."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        way = draw(st.sampled_from(places_in(document)))
        if not way:
            continue
        holder = document
        for step in way[:-1]:
            holder = holder[step]
        match draw(st.sampled_from(["set", "set", "set", "drop", "twice"])):
            case "drop":
                del holder[way[-1]]
            case "twice" if isinstance(holder, list):
                holder.append(holder[way[-1]])
            case _:
                holder[way[-1]] = draw(odd_values)
    return document


def document_of(record: Any, number: int = DOCUMENT.number) -> bytes:
    """Return a document with a checksum that is right."""
    import hashlib

    body = json.dumps(record, ensure_ascii=True).encode()
    return b'{"format": %d, "sha256": "%s", "record": %s}' % (number, hashlib.sha256(body).hexdigest().encode(), body)


def look_into(path: str) -> None:
    """Do all with a savepoint that commands and programs do."""
    for use in (
        lambda: inspect(path, count_keys=True),
        lambda: verify(path),
        lambda: SavepointWriter.from_existing(path).set_keyed_state("new", "state", {1: 1}).write(f"{path}-changed"),
    ):
        with ours():
            use()
    with ours():
        savepoint = Savepoint.open(path)
        for operator in savepoint.operators:
            for state in operator.keyed_states:
                with ours():
                    list(savepoint.keyed_state(operator.uid, state.name))
            for state in operator.operator_states:
                with ours():
                    list(
                        (savepoint.broadcast_state if state.mode == "broadcast" else savepoint.list_state)(
                            operator.uid, state.name
                        )
                    )
            for read in (savepoint.timers, savepoint.source_splits):
                with ours():
                    list(read(operator.uid))
    with ours():
        dispose(path)


@fuzzed(FEW)
@given(data=st.data())
def test_metadata(data: st.DataObject, whole: Path) -> None:
    record = json.loads((whole / "_metadata").read_bytes())["record"]
    document = document_of(
        data.draw(altered(record)), data.draw(st.sampled_from([1, 2, DOCUMENT.number, DOCUMENT.number]))
    )
    with tempfile.TemporaryDirectory() as place:
        path = Path(shutil.copytree(whole, Path(place, "savepoint")))
        (path / "_metadata").write_bytes(document)
        with inside(Path(place), Path(tempfile.gettempdir(), "penstock-")):
            look_into(str(path))
        assert {one.name.partition("-")[0] for one in Path(place).iterdir()} <= {"savepoint"}


@fuzzed(MANY)
@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(str.encode)
    | odd_values.map(lambda one: json.dumps(one).encode())
)
def test_bytes_in_place_of_metadata(data: bytes) -> None:
    for document in (data, b'{"format": 3, "sha256": "", "record": %s}' % data, b"[" * 100_000):
        with ours():
            decode_chain_entry(document, "a")


@fuzzed(MANY)
@given(data=st.data())
def test_metadata_that_is_accepted_can_be_written_again(data: st.DataObject, whole: Path) -> None:
    record = json.loads((whole / "_metadata").read_bytes())["record"]
    with ours():
        entry = decode_chain_entry(document_of(data.draw(altered(record))), "a")
        assert decode_chain_entry(encode_chain_entry(entry), "b") == entry


columns = st.one_of(
    st.binary(max_size=40),
    odd_values.map(msgspec.json.encode),
    st.lists(st.integers(), max_size=4).map(str).map(str.encode),
)


@fuzzed(MANY)
@given(data=st.data())
def test_state_files(data: st.DataObject) -> None:
    writer = StateFileWriter()
    chunk = Chunk(ChunkOperation.PUT, "state", "value", True, (), (0, 127), [1, "a", b"t\x02sa"])
    chunk.values, chunk.originals, chunk.stamps = [1, [2], None], [None, None, ("a",)], [None, 5, None]
    writer.add(chunk)
    [first], body = writer._index, writer.finish()
    info = msgspec.to_builtins(first)
    raw = bytearray(state_file._decompress(body, "", first))
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    packed = state_file._codec().compress(bytes(raw), asbytes=True) if data.draw(st.booleans()) else data.draw(columns)
    head = body[: first.offset]
    info[7], info[8], info[10] = len(packed), len(raw), crc32(packed)
    for _ in range(data.draw(st.integers(0, 2))):
        info[data.draw(st.integers(0, len(info) - 1))] = data.draw(odd_values)
    try:
        index = msgspec.msgpack.encode([info])
    except OverflowError:
        return
    trailer = state_file._TRAILER.pack(len(index), crc32(index))
    file = head + packed + index + trailer
    with ours():
        for chunk in read_state_file(file, "file", range(128), 128, AllowedClasses.of(())):
            assert len(chunk.addresses()) == len(chunk.keys)
    with ours():
        for line in read_index(file, "file"):
            read_owners(file, "file", line)
    with ours():
        list(
            read_state_file(
                data.draw(st.binary(max_size=100)) + file[data.draw(st.integers(0, 50)) :], "f", range(9), 9
            )
        )


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def very_large(path: Path) -> None:
    os.truncate(path, 1 << 26)  # zeros take no room, unless they are copied


def unreadable(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


DAMAGES = [emptied, linked, a_pipe, a_directory, very_large, unreadable, Path.unlink]


@fuzzed(FEW)
@given(data=st.data())
def test_directories_of_savepoints(data: st.DataObject, whole: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(shutil.copytree(whole, Path(place, "savepoint-000000-a")))
        files = sorted(path.iterdir())
        for file in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True)):
            if data.draw(st.booleans()):
                data.draw(st.sampled_from(DAMAGES))(file)
            else:
                file.write_bytes(data.draw(st.binary(max_size=60)) + file.read_bytes()[data.draw(st.integers(0, 90)) :])
        for name in data.draw(st.lists(odd_text, max_size=2, unique=True)):
            if (
                len(name) < 200
                and "/" not in name
                and "\x00" not in name
                and name.isprintable()
                and name not in {"", ".", ".."}
            ):
                (path / name).symlink_to("/etc")
        with inside(Path(place), Path(tempfile.gettempdir(), "penstock-")):
            with ours():
                places = LeftoverPlaces(checkpoint_directories=(place,), savepoint_directories=(place,), local=False)
                remove_leftovers(find_leftovers(places, now_ms=2**45).leftovers)
            look_into(str(path))
    assert Path("/etc/hostname").exists()


@fuzzed(MANY)
@given(data=st.data())
def test_entries_of_the_registry(data: st.DataObject) -> None:
    entry = {"job_id": "0" * 32, "name": "job", "address": "http://a", "pid": 1, "host": os.uname().nodename}
    with tempfile.TemporaryDirectory() as place:
        changed = data.draw(altered({**entry, "started_ms": 1, "token": None, "run_id": ""}))
        content = data.draw(st.sampled_from([json.dumps(changed).encode(), data.draw(st.binary(max_size=40))]))
        Path(place, "entry.json").write_bytes(content)
        with inside(Path(place)):
            assert len(JobRegistry(Path(place)).entries()) <= 1


settings_given = st.dictionaries(
    st.one_of(st.sampled_from(sorted(KNOWN_KEYS)), odd_text),
    st.one_of(odd_text, odd_values.map(str), st.integers().map(str), st.text(max_size=30)),
    max_size=4,
)


@fuzzed(MANY)
@given(settings_given, st.one_of(st.binary(max_size=60), odd_values.map(lambda one: json.dumps(one).encode())))
def test_configuration(values: dict[str, str], file: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place, FILE_NAME).write_bytes(file)
        folder = Path(place)
        with inside(folder), ours():
            for layer in outer_settings(folder, {"FLINK_PROPERTIES": str(values)}):
                checked(layer)
        with inside(folder), ours():
            effective_configuration(Configuration.from_dict(values), folder, {})
    configuration = Configuration.from_dict(values)
    for option in OPTIONS.values():
        with ours():
            configuration.get(option)
    with ours():
        checked({key: Setting(value, "a test") for key, value in values.items()})
    assert str(configuration)
