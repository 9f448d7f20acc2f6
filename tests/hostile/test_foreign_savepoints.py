"""Savepoints of another writer, or altered ones: none of their code runs, and no file outside of them is touched."""

from __future__ import annotations

import json
import pickle
import stat
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zlib import crc32
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pytest
from tests.unit.savepoints.jobs import cancelled_job, environment, run, savepoint_of, totals

from penstock._engine.cli.main import main
from penstock._engine.coordinator.checkpoints.snapshots import map_handles
from penstock._engine.coordinator.instructions import DeliverOutputs, OperatorOutput
from penstock._engine.driver.client.results import Results
from penstock._engine.protocol.metadata_document import decode_chain_entry, encode_chain_entry
from penstock._engine.savepoints.disposal import dispose
from penstock._engine.savepoints.inspection import inspect
from penstock._engine.savepoints.located import locate
from penstock._engine.savepoints.signing import sign
from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.opening import open_storage, options_for_tasks
from penstock.common import Row
from penstock.errors import (
    ConfigurationError,
    CorruptCheckpointError,
    PenstockError,
    SignatureError,
    UnreadableOutputError,
    UntrustedClassError,
)
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.protocol.metadata import ChainEntry

KEY, OTHER_KEY = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
SIGNED = {"penstock.state.signing-key": KEY}


class Bomb:
    """A value whose pickle writes a file."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return Path.write_text, (self.place, "it ran")


@dataclass(frozen=True)
class Order:
    number: int
    kind: Kind


class Kind(Enum):
    RETAIL = "retail"


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


READS: dict[str, Callable[[Savepoint], Any]] = {
    "keyed": lambda savepoint: savepoint.keyed_state("op", "keyed"),
    "list": lambda savepoint: savepoint.list_state("op", "list"),
    "broadcast": lambda savepoint: savepoint.broadcast_state("op", "broadcast"),
}


def with_bombs(path: Path, ran: Path) -> str:
    """Write a savepoint by hand in whose pickles there is a bomb: a writer would copy the values, and set it off."""

    def armed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: armed(one) for key, one in value.items()}
        return [armed(one) for one in value] if isinstance(value, list) else Bomb(ran) if value == "bomb" else value

    with pytest.MonkeyPatch.context() as patch:
        for module in ("files.chunk_columns.pickles", "operator_state"):
            patch.setattr(f"penstock._engine.state.{module}.dump", lambda value: pickle.dumps(armed(value)))
        return with_values("bomb", path)


def with_values(value: Any, path: Path) -> str:
    writer = SavepointWriter.new()
    writer.set_keyed_state("op", "keyed", {"key": value})
    writer.set_list_state("op", "list", [value])
    writer.set_broadcast_state("op", "broadcast", {"key": value})
    return writer.write(str(path))


@pytest.mark.parametrize("read", READS)
def test_reading_a_savepoint_calls_nothing_that_its_pickles_name(read: str, tmp_path: Path, ran: Path) -> None:
    path = with_bombs(tmp_path / "savepoint", ran)
    savepoint = Savepoint.open(path)
    for use in (list, lambda rows: rows.to_pandas(), lambda rows: rows.to_arrow()):
        with pytest.raises(UntrustedClassError, match=r"builtins\.getattr|pathlib"):
            use(READS[read](savepoint))
    assert not ran.exists()
    list(READS[read](Savepoint.open(path, classes=None)))  # the pickle is a good one
    assert ran.exists()


def test_changing_a_savepoint_calls_nothing_that_its_pickles_name(tmp_path: Path, ran: Path) -> None:
    path = with_bombs(tmp_path / "savepoint", ran)
    writer = SavepointWriter.from_existing(path).transform_keyed_state("op", "keyed", lambda _, value: value)
    with pytest.raises(UntrustedClassError, match=r"classes=\[.*SavepointWriter\.from_existing"):
        writer.write(str(tmp_path / "changed"))
    SavepointWriter.from_existing(path).drop_state("op", "keyed").set_list_state("op", "list", []).change_uid(
        "op", "other"
    )
    assert not ran.exists()


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.to_batches()[0],
    "batches": lambda table: iter(table.to_batches()),
    "pandas": lambda table: table.to_pandas(),
}
STRUCTS = {
    "value": lambda struct: {"key": "k", "value": struct},
    "key": lambda struct: {"key": struct, "value": 1},
    "deep": lambda struct: {"key": "k", "value": {"_python": "frozenset", "items": [{"_1": struct}]}},
}


@pytest.mark.parametrize("given", FRAMES)
@pytest.mark.parametrize("struct", STRUCTS)
def test_a_data_frame_makes_no_class_that_was_not_named(
    given: str, struct: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    (tmp_path / "planted.py").write_text(f"{ran}class Order(tuple):\n    _fields = ('a',)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    frame = FRAMES[given](pa.Table.from_pylist([STRUCTS[struct]({"_python": "planted.Order", "a": 7})]))
    with pytest.raises(UntrustedClassError, match=r"classes=\['planted\.Order'\].*SavepointWriter\.new"):
        SavepointWriter.new().set_keyed_state("op", "keyed", frame).write(str(tmp_path / "refused"))
    assert not (tmp_path / "ran").exists()
    if given == "table":
        writer = SavepointWriter.new(classes=["planted.Order"]).set_keyed_state("op", "keyed", frame)
        writer.write(str(tmp_path / "made"))
        assert (tmp_path / "ran").exists()


def test_keys_name_no_class_either(tmp_path: Path) -> None:
    path = SavepointWriter.new().set_keyed_state("op", "keyed", {Order(1, Kind.RETAIL): 1}).write(str(tmp_path / "s"))
    with pytest.raises(UntrustedClassError, match="Order"):
        list(Savepoint.open(path).keyed_state("op", "keyed"))
    [entry] = Savepoint.open(path, classes=[Order, Kind]).keyed_state("op", "keyed")
    assert entry.key == Order(1, Kind.RETAIL)


PLAIN = [
    *(None, True, 7, 2**70, 1.5, 1j, "text", b"bytes", bytearray(b"b"), range(3), slice(1)),
    *((1, "a"), [1], {"a": 1}, {1, 2}, frozenset({1}), deque([1]), OrderedDict(a=1), Counter("aab")),
    *(defaultdict(list, a=[1]), datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=ZoneInfo("Europe/Oslo"))),
    *(list, int, defaultdict(Counter), deque([1], 3), Counter(), Row(1, 2), [Row(a=1)] * 3, [Counter(a=1)] * 3),
    *(timedelta(1), Decimal("1.50"), Fraction(1, 3), UUID(int=7), Row(a=1, b="x")),
]


def test_plain_values_need_no_word(tmp_path: Path) -> None:
    path = SavepointWriter.new().set_list_state("op", "list", PLAIN).write(str(tmp_path / "savepoint"))
    assert [item.value for item in Savepoint.open(path).list_state("op", "list")] == PLAIN


@pytest.mark.parametrize("classes", [[Order, Kind], [f"{__name__}.Order", f"{__name__}.Kind"], None])
def test_classes_that_are_named_are_made(classes: Any, tmp_path: Path) -> None:
    path = with_values(Order(1, Kind.RETAIL), tmp_path / "savepoint")
    savepoint = Savepoint.open(path, classes=classes)
    assert [next(iter(READS[read](savepoint))).value for read in READS] == [Order(1, Kind.RETAIL)] * 3


# ------------------------------------------------------------------------------------------------- names that lead away


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(savepoint_of(tmp_path_factory.mktemp("whole"), inline="0 b"))


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    """A savepoint, and beside it a file that is none of its own."""
    import shutil

    (tmp_path / "precious").write_bytes(b"precious")
    return Path(shutil.copytree(whole, tmp_path / "savepoint"))


def altered(savepoint: Path, change: Callable[[ChainEntry], ChainEntry]) -> str:
    """Alter the metadata of a savepoint, with a checksum that is right."""
    file = savepoint / "_metadata"
    file.write_bytes(encode_chain_entry(change(decode_chain_entry(file.read_bytes(), ""))))
    return str(savepoint)


def renamed(savepoint: Path, name: str) -> str:
    def change(entry: ChainEntry) -> ChainEntry:
        assert entry.snapshot is not None
        return replace(entry, snapshot=map_handles(entry.snapshot, lambda handle: replace(handle, path=name)))

    return altered(savepoint, change)


def start(path: str, **settings: str) -> None:
    env = environment(2, recover=path)
    for key, value in settings.items():
        env._configuration.set_string(key, value)
    totals(env, 3_000)
    run(env, Path(path).parent)


USES: dict[str, Callable[[str], object]] = {
    "open": lambda path: Savepoint.open(path).info,
    "verify": lambda path: Savepoint.open(path).verify(),
    "dispose": dispose,
    "change": lambda path: SavepointWriter.from_existing(path).write(f"{path}-changed"),
    "sign": lambda path: sign(path, SIGNED),
    "start": start,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ["../precious", "{place}/precious", "a/../../precious", "a\x00b", "", "./a"])
def test_a_name_in_the_metadata_leads_nowhere_else(use: str, name: str, copied: Path) -> None:
    path = renamed(copied, name.format(place=copied.parent))
    with pytest.raises(CorruptCheckpointError, match="leads out of the directory"):
        USES[use](path)
    assert (copied.parent / "precious").read_bytes() == b"precious"
    assert {entry.name for entry in copied.parent.iterdir()} <= {"savepoint", "precious", "state"}


def test_no_name_reaches_a_terminal_as_a_command(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;gone\x07\x1b[2J\x9b31m\u202e"

    def change(entry: ChainEntry) -> ChainEntry:
        assert entry.snapshot is not None
        operators = {uid: replace(one, name=evil) for uid, one in entry.snapshot.operators.items()}
        return replace(entry, job_name=evil, reason=evil, snapshot=replace(entry.snapshot, operators=operators))

    path = altered(copied, change)
    for more in ((), ("--json",), ("--verify",)):
        assert main(["savepoint", "inspect", path, *more]) == 0
    assert main(["savepoint", "inspect", f"{path}{evil}"]) != 0
    said = "".join(capsys.readouterr())
    assert "gone" in said
    assert not set(said) & set(evil) - set("gone]0;[2J31m")
    assert "\x1b" not in str(CorruptCheckpointError(evil, evil))


# ---------------------------------------------------------------------------------------------------------- signatures


def files_of(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def unsigned(savepoint: Path) -> None:
    altered(savepoint, lambda entry: entry)


def altered_metadata(savepoint: Path) -> None:
    file = savepoint / "_metadata"
    document = json.loads(file.read_bytes())
    altered(savepoint, lambda entry: replace(entry, job_name="another"))
    file.write_bytes(file.read_bytes().replace(b'"record"', b'"hmac": "%s",\n"record"' % document["hmac"].encode(), 1))


def altered_state(savepoint: Path) -> None:
    """Change a file and give its handle the size and checksum of that, as anybody can."""
    state = min(path for path in savepoint.iterdir() if path.name != "_metadata")
    data = state.read_bytes()[:-1] + b"\x00"
    state.write_bytes(data)


def of_another_key(savepoint: Path) -> None:
    sign(str(savepoint), {"penstock.state.signing-key": OTHER_KEY})


FORGERIES = [unsigned, altered_metadata, of_another_key]


@pytest.fixture
def signed(copied: Path) -> Path:
    sign(str(copied), SIGNED)
    return copied


@pytest.mark.parametrize("forge", FORGERIES)
def test_with_a_key_nothing_is_started_or_read_that_it_has_not_signed(
    forge: Callable[[Path], None], signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(str(signed), **SIGNED)
    list(Savepoint.open(str(signed), SIGNED).keyed_state("totals", "total"))
    forge(signed)
    before = files_of(signed)
    monkeypatch.setattr("penstock._engine.state.files.pickles.load", lambda _: pytest.fail("it was unpickled"))
    for use in (
        lambda: start(str(signed), **SIGNED),
        lambda: Savepoint.open(str(signed), SIGNED),
        lambda: dispose(str(signed), options=SIGNED),
    ):
        with pytest.raises(SignatureError, match=f"penstock savepoint sign {signed}"):
            use()
    assert files_of(signed) == before


def test_a_signature_covers_the_files_that_the_metadata_names(signed: Path) -> None:
    state = min(path for path in signed.iterdir() if path.name.startswith("totals"))
    data = bytearray(state.read_bytes())
    data[20] ^= 1
    forged = bytes(data)
    # The checksum and the size can be made to fit; the entry that has them cannot be signed anew.
    located = locate(str(signed))
    handle = next(one for part in located.snapshot.operators["totals"].subtasks for one in part.lineage)
    assert handle.digest is not None
    state.write_bytes(forged)
    fits = replace(handle, path=state.name, size=len(forged), checksum=crc32(forged))
    with pytest.raises(CorruptCheckpointError, match="replaced"):
        located.read(fits)


def test_a_job_signs_its_chain_and_goes_on_from_that_alone(tmp_path: Path) -> None:
    configuration = {"inline": "100 b"}
    env = environment(2, checkpoints=str(tmp_path / "checkpoints"), **configuration)
    env._configuration.set_string(*next(iter(SIGNED.items())))
    totals(env, 3_000)
    _, path = run(env, tmp_path, stop_in=1)
    entries = [*tmp_path.glob("checkpoints/*/chk-*/_metadata"), Path(str(path), "_metadata")]
    assert len(entries) > 2
    assert all(json.loads(file.read_bytes())["hmac"] for file in entries)

    def go_on(key: str) -> None:
        env = environment(2, checkpoints=str(tmp_path / "checkpoints"), recover="latest")
        env._configuration.set_string("penstock.state.signing-key", key)
        totals(env, 3_000)
        run(env, tmp_path)

    with pytest.raises(SignatureError):
        go_on(OTHER_KEY)
    go_on(f"{OTHER_KEY} {KEY}")  # a new key signs, and the one before it is accepted


def test_what_was_written_before_there_was_a_key_is_signed_by_hand(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    word = f"-Dpenstock.state.signing-key={KEY}"
    with pytest.raises(SignatureError, match="it has no signature"):
        start(str(copied), **SIGNED)
    assert main(["savepoint", "sign", word, str(copied)]) == 0
    assert "Signed" in capsys.readouterr().err
    start(str(copied), **SIGNED)
    assert inspect(str(copied), verify=True, options=SIGNED).verified
    start(str(copied))  # who has no key does not look


def test_checkpoints_of_a_cancelled_job_are_signed_by_hand_too(tmp_path: Path) -> None:
    job = cancelled_job(tmp_path, inline="0 b")
    checkpoint = next(path for path in sorted(job.glob("chk-*")) if locate(str(path)).entry.snapshot is not None)
    assert sign(str(checkpoint), SIGNED).files > 0
    assert locate(str(checkpoint), SIGNED).entry.job_id == job.name


@pytest.mark.parametrize("key", ["", "short", "0123456789abcdef short"])
def test_a_short_key_is_refused_and_not_shown(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\*\*\*\*\*\*") as caught:
        open_storage(str(tmp_path), {"penstock.state.signing-key": key})
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize(
    "kind", ["driver.epochs.execution.MAX_INLINE_PROGRAM", "plan.dispatches.MAX_INLINE_DISPATCHES"]
)
def test_what_tasks_read_in_the_checkpoint_directory_cannot_be_exchanged(
    kind: str, tmp_path: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"penstock._engine.{kind}", 0)
    put = LocalStorage.put
    modes = set[int]()

    def exchange(storage: LocalStorage, path: str, data: bytes) -> None:
        if "/blobs/" not in path:
            put(storage, path, data)
            return
        bomb = pickle.dumps(Bomb(ran))
        put(storage, path, bomb + data[len(bomb) :])
        modes.add(stat.S_IMODE(Path(storage.full_path(path)).stat().st_mode))

    monkeypatch.setattr(LocalStorage, "put", exchange)
    with pytest.raises(PenstockError, match="it was replaced"):
        savepoint_of(tmp_path)
    assert not ran.exists()
    assert modes == {0o600}


def test_results_in_the_checkpoint_directory_cannot_be_exchanged(tmp_path: Path, ran: Path) -> None:
    results = Results({"op": ("print", True)}, LocalStorage(tmp_path))
    (tmp_path / "results").write_bytes(msgspec.msgpack.encode([pickle.dumps(Bomb(ran))]))
    with pytest.raises(UnreadableOutputError, match="it was replaced"):
        results.hand_over(DeliverOutputs((OperatorOutput("op", 0, (), "results", b"digest"),)))
    assert not ran.exists()


def test_tasks_get_no_key() -> None:
    options = {**SIGNED, "s3.access-key": "a"}
    assert options_for_tasks(options) == {"s3.access-key": "a"}


def test_every_error_of_ours_is_printable() -> None:
    assert str(UntrustedClassError("os.system\x1b[2J")).isprintable()
    assert isinstance(UntrustedClassError("a"), PenstockError)
