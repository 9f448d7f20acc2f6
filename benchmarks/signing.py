"""What digests and a signature cost an epoch: their processor time as a share of its own, in one run.

    python benchmarks/signing.py            100,000 changed keys, 40 epochs, about ten seconds

An epoch here is 100,000 records through a keyed function with a value state, as a task runs it, and then the file of
what has changed, its handle, the chain entry, and both files on the disk. Sources, edges and Spark would make the part
of signing smaller still. Every second epoch is without both: the pairs tell whether they cost anything elsewhere.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entries import JOB, UID, entry_of
from figures import Figures

from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.paths import metadata_path, shared_path
from penstock._engine.protocol.signing import SigningKeys, file_digest
from penstock._engine.state import keyed_state
from penstock._engine.state.backend import MemoryBackend
from penstock._engine.storage.checkpoint_storage import document_of
from penstock._engine.storage.opening import open_storage
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS, EPOCHS, BAR = 100_000, 40, 0.02
SIGN = SigningKeys.sign
KEY = {"penstock.state.signing-key": "0123456789abcdef0123456789abcdef"}


def no_digest(_: bytes) -> None:
    """Stand for the digest in an epoch without."""


class Total(KeyedProcessFunction):
    """Adds up what came for a key."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value: int, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value)


class Epochs:
    """One keyed store, and the storage that takes what its epochs change."""

    def __init__(self, directory: Path, *, signed: bool) -> None:
        self._storage = open_storage(str(directory), KEY if signed else {})
        self._store = keyed_state.KeyedState(
            MemoryBackend(key_group_range(0, 1, 128), 128), lambda handle: handle.inline or b""
        )
        self._lineage: tuple[keyed_state.StateHandle, ...] = ()
        self._digest: Callable[[bytes], Any] = file_digest if signed else no_digest
        #: Processor seconds of the last epoch that went into digests and the signature.
        self.part = 0.0
        self._number = 0
        self._operator = OperatorHarness.for_keyed_process(Total(), lambda value: value)
        self._operator.open()

    def run(self, keys: int) -> float:
        """Run one epoch, and return its processor seconds."""
        self._number += 1
        number, path = self._number, shared_path(JOB, UID, 0, self._number, self._number)
        self.part = 0.0
        keyed_state.file_digest = self._timed(self._digest)  # type: ignore[assignment]
        SigningKeys.sign = self._timed(SIGN)  # type: ignore[method-assign]
        began = time.process_time()
        self._operator.process_elements(range(keys))
        self._operator.clear_output()
        self._store.catch_up(self._lineage)
        pane = self._store.table("state", kind="value").pane()
        for key in range(keys):
            pane.hot[key] = number + key
            pane.dirty.add(key)
        data = self._store.delta(number, number)
        assert data is not None
        self._storage.put(path, data)
        handle = self._store.describe(data, "delta", number, number, path)
        self._lineage = (*self._lineage, handle)
        entry = entry_of(ChainEntryKind.CHECKPOINT, number, [self._lineage])
        self._storage.put_if_absent(metadata_path(JOB, number), document_of(self._storage, entry))
        return time.process_time() - began

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.process_time()
            result = function(*arguments)
            self.part += time.process_time() - began
            return result

        return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        plain, signed = Epochs(Path(place, "plain"), signed=False), Epochs(Path(place, "signed"), signed=True)
        runs = [
            (plain.run(arguments.keys), signed.run(arguments.keys), signed.part) for _ in range(arguments.epochs // 2)
        ]
    share = statistics.median(part / whole for _, whole, part in runs[2:])
    pairs = statistics.median(whole / without for without, whole, _ in runs[2:]) - 1
    figures = Figures("Digests and signatures")
    figures.add(f"An epoch of {arguments.keys:,} changed keys", f"{statistics.median(one for one, _, _ in runs):.3f} s")
    figures.add("Digest and signature in it, median", f"{share:.2%}", f"{BAR:.0%}", met=share <= BAR)
    figures.add("An epoch with both beside one without, median of pairs", f"{pairs:+.1%}")
    sys.exit(figures.show())


if __name__ == "__main__":
    main()
