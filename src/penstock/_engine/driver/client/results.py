"""Hands the program what its jobs print and collect, each epoch's after its checkpoint has completed."""

from __future__ import annotations

import pickle
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._engine.coordinator import events as ev
from penstock._engine.driver.client.signals import HEARS_S
from penstock._engine.protocol.signing import check_digest
from penstock.errors import CheckpointStorageError, CorruptCheckpointError, UnreadableOutputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage

#: Bytes that wait for the program; beyond this no new epoch starts.
_ROOM = 64 << 20


class Results:
    """The outputs of one job, between the driver and the program.

    Args:
        collectors: By uid of the operators whose output goes somewhere: their name, and whether it goes to standard
            output.
        storage: Holds outputs that are too large for an ack.
    """

    def __init__(self, collectors: Mapping[str, tuple[str, bool]], storage: CheckpointStorage) -> None:
        self._collectors = collectors
        self._storage = storage
        self._changed = threading.Condition()
        self._blocks: dict[str, deque[bytes]] = {
            uid: deque() for uid, (_, as_text) in collectors.items() if not as_text
        }
        #: What is being handed over, and how many blocks of it have been given away.
        self._begun: do.DeliverOutputs | None = None
        self._given = 0
        self._waiting_bytes = 0
        self._interrupted = False
        self._ended = False
        self._error: Exception | None = None

    def hand_over(self, instruction: do.DeliverOutputs) -> ev.Event:
        """Print lines, and put collected records where `results` finds them.

        All of it is read before any of it is given away, and a second try goes on where the first one broke off.

        Raises:
            UnreadableOutputError: Some of it cannot be read.
        """
        if instruction != self._begun:
            self._begun, self._given = instruction, 0
        blocks = [(output.uid, block) for output in instruction.outputs for block in self._blocks_of(output)]
        for uid, block in blocks[self._given :]:
            _, as_text = self._collectors[uid]
            if as_text:
                sys.stdout.write("".join(f"{line}\n" for line in pickle.loads(block)))
                sys.stdout.flush()
            else:
                self._keep(uid, block)
            self._given += 1
        self._begun = None
        return ev.OutputsDelivered()

    def _blocks_of(self, output: do.OperatorOutput) -> Sequence[bytes]:
        if output.path is None:
            return output.blocks
        try:
            data = self._storage.read(output.path)
            check_digest(data, output.digest, self._storage.full_path(output.path))
            try:
                return msgspec.msgpack.decode(data, type=list[bytes])
            except msgspec.MsgspecError as error:
                raise CorruptCheckpointError(self._storage.full_path(output.path), "it is damaged") from error
        except (CheckpointStorageError, CorruptCheckpointError) as error:
            name, _ = self._collectors[output.uid]
            raise UnreadableOutputError(name, output.uid, f"{error.path}: {error.reason}") from error

    def _keep(self, uid: str, block: bytes) -> None:
        with self._changed:
            self._blocks[uid].append(block)
            self._waiting_bytes += len(block)
            self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Wait until the program has taken enough outputs, or the room is not needed any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._interrupted or self._waiting_bytes < _ROOM)
            self._interrupted = False

    def interrupt(self) -> None:
        """Let `wait_for_room` return: the epoch that waits for it is to be cancelled."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def end(self, error: Exception | None) -> None:
        """Note that nothing follows, and why."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def next_block(self, uid: str) -> list[Any] | None:
        """Wait for the next records of an operator; None at the end, and the job's error when it has failed."""
        blocks = self._blocks[uid]
        with self._changed:
            while not self._changed.wait_for(lambda: blocks or self._ended, HEARS_S):
                pass
            if not blocks:
                if self._error is not None:
                    raise self._error
                return None
            block = blocks.popleft()
            self._waiting_bytes -= len(block)
            self._changed.notify_all()
        return pickle.loads(block)
