"""Pickles made by hand in savepoints: no code runs, nothing in the process changes, and they take no memory."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.state.files.trust import AllowedClasses
from penstock.common import RowKind
from penstock.common.types import make_row
from penstock.errors import CorruptCheckpointError, UntrustedClassError
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "pickled",
    [
        b"cbuiltins\ngetattr\n(cbuiltins\nint\nVfrom_bytes\ntR.",
        b"cbuiltins\neval\n(V1\ntR.",
        b"c__builtin__\neval\n(V1\ntR.",
        pickle.dumps(Savepoint.open),
        b"\x80\x04\x8c\x08datetime\x8c\x0cdate.__class__\x93.",
        b"cpenstock._engine.savepoints.disposal\ndispose\n(V/tmp/x\ntR.",
        b"",
        b"garbage",
        b"\x80\x05]\x94(K\x01K\x02",
        b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    ],
)
def test_pickles_by_hand_are_an_error_of_ours(pickled: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock._engine.state.operator_state.dump", lambda _: pickled)
    path = SavepointWriter.new().set_list_state("op", "list", [1]).write(str(tmp_path / "savepoint"))
    with pytest.raises((UntrustedClassError, CorruptCheckpointError)):
        list(Savepoint.open(path).list_state("op", "list"))


def shared() -> Any:
    """What crafted pickles change, if they can."""
    return list(vars(Counter)), [(kind.name, kind.value) for kind in RowKind], make_row.__defaults__


COUNTER, ROW_KIND = b"ccollections\nCounter\n", b"cpenstock.common.types\nRowKind\n"
RANGE = b"cbuiltins\nrange\n(I1000000000000000\ntR"
MANY = b"(" + b"K\x01" * 1_000 + b"tp0\n"
CRAFTED = {
    "a class is changed": COUNTER + b"(N}V__len__\nK\x07stb.",
    "a member of an enum": ROW_KIND + b"(K\x00tR}V_value_\nK\x07sb.",
    "a function": b"cpenstock.common.types\nmake_row\n(N}V__defaults__\n(K\x07tstb.",
    "a list of a range": b"cbuiltins\nlist\n(" + RANGE + b"tR.",
    "a new list of a range": b"cbuiltins\ntuple\n(" + RANGE + b"t\x81.",
    "a list of a range by its name": b"(icollections\ndeque\n".replace(b"(i", b"(" + RANGE + b"i") + b".",
    "an object of a range": b"(cbuiltins\nset\n" + RANGE + b"o.",
    "bytes by their number": b"cbuiltins\nbytearray\n(I1000000000000000\ntR.",
    "a count of a range": COUNTER + b"(" + RANGE + b"tR.",
    "a row of a range": b"cpenstock.common.types\nmake_row\n(N" + RANGE + b"NtR.",
    "an integer of an exponent": b"cbuiltins\nint\n(cdecimal\nDecimal\n(V1e999999999\ntRtR.",
    "a fraction of an exponent": b"cfractions\nFraction\n(V1e999999999\ntR.",
    "copies of copies": b"(" + MANY + 1_000 * b"cpenstock.common.types\nmake_row\n(Ng0\nNtR" + b"t.",
    "an object that names its state": COUNTER + b"(tR}V__setstate__\ncbuiltins\nlist\nsb" + RANGE + b"b.",
    "an object that names its class": COUNTER + b"(tR(N}V__class__\ncbuiltins\ndict\nstb.",
    "a call of a value": b"cbuiltins\nrange\n0K\x01)R.",
    "too little": b"cbuiltins\nrange\n0R.",
}


@pytest.mark.parametrize("what", CRAFTED)
def test_pickles_change_nothing_of_the_process_and_ask_for_no_memory_beyond_their_size(what: str) -> None:
    before = shared()
    try:
        with pytest.raises((UntrustedClassError, pickle.UnpicklingError)):
            AllowedClasses.of([]).load(CRAFTED[what])
    finally:
        changed, after = shared() != before, shared()
        if "__len__" in vars(Counter):
            del Counter.__len__  # type: ignore[attr-defined]
        RowKind.INSERT._value_ = 0
        make_row.__defaults__ = None
    assert not changed, after
