"""Hands the program what its jobs print and collect, each epoch's after its checkpoint has completed."""

from __future__ import annotations

import pickle
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage

#: Bytes that wait for the program; beyond this no new epoch starts.
_ROOM = 64 << 20


class Results:
    """The outputs of one job, between the driver and the program.

    Args:
        printed: By uid of the operators whose output goes somewhere: True where that is standard output.
        storage: Holds outputs that are too large for an ack.
    """

    def __init__(self, printed: Mapping[str, bool], storage: CheckpointStorage) -> None:
        self._printed = printed
        self._storage = storage
        self._changed = threading.Condition()
        self._blocks: dict[str, deque[bytes]] = {uid: deque() for uid, as_text in printed.items() if not as_text}
        self._waiting_bytes = 0
        self._interrupted = False
        self._ended = False
        self._error: Exception | None = None

    def hand_over(self, instruction: do.HandOver) -> None:
        """Print lines, and put collected records where `results` finds them."""
        for output in instruction.outputs:
            blocks = output.blocks
            if output.path is not None:
                blocks = tuple(msgspec.msgpack.decode(self._storage.read(output.path), type=list[bytes]))
                self._storage.delete([output.path])
            if self._printed[output.uid]:
                for block in blocks:
                    sys.stdout.writelines(f"{line}\n" for line in pickle.loads(block))
                sys.stdout.flush()
            else:
                self._keep(output.uid, blocks)

    def _keep(self, uid: str, blocks: tuple[bytes, ...]) -> None:
        with self._changed:
            self._blocks[uid].extend(blocks)
            self._waiting_bytes += sum(map(len, blocks))
            self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Wait until the program has taken enough of what waits for it, or nobody needs the room any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._interrupted or self._waiting_bytes < _ROOM)
            self._interrupted = False

    def interrupt(self) -> None:
        """Let `wait_for_room` return: the epoch that waits for it is to be cancelled."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def end(self, error: Exception | None) -> None:
        """Take note that nothing follows, and why."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def next_block(self, uid: str) -> list[Any] | None:
        """Wait for the next records of an operator; None at the end, and the job's error when it has failed."""
        blocks = self._blocks[uid]
        with self._changed:
            self._changed.wait_for(lambda: blocks or self._ended)
            if not blocks:
                if self._error is not None:
                    raise self._error
                return None
            block = blocks.popleft()
            self._waiting_bytes -= len(block)
            self._changed.notify_all()
        return pickle.loads(block)
