"""Delivers printed and collected records to the program, once the checkpoint of their epoch has completed."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._engine.coordinator import events as ev
from penstock._engine.driver.client.signals import SIGNAL_POLL_S
from penstock._engine.protocol.signing import check_digest
from penstock.common.process import print_lines
from penstock.common.user_values import error_line
from penstock.errors import CheckpointStorageError, CorruptCheckpointError, UnreadableOutputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.storage.checkpoint_storage import FileStorage

#: The limit in bytes of undelivered output, beyond which no new epoch starts.
_ROOM = 64 << 20


class Results:
    """The outputs of one job, between the driver and the program.

    Args:
        collectors: By uid of the operators with output: their name, and whether it goes to standard output.
        storage: Holds outputs that are too large for an ack.
    """

    def __init__(self, collectors: Mapping[str, tuple[str, bool]], storage: FileStorage) -> None:
        self._collectors = collectors
        self._storage = storage
        self._changed = threading.Condition()
        self._blocks: dict[str, deque[bytes]] = {
            uid: deque() for uid, (_, as_text) in collectors.items() if not as_text
        }
        #: The running delivery, and below the number of its delivered blocks.
        self._begun: do.DeliverOutputs | None = None
        self._given = 0
        self._waiting_bytes = 0
        self._interrupted = False
        self._ended = False
        self._error: Exception | None = None

    def hand_over(self, instruction: do.DeliverOutputs) -> ev.Event:
        """Print lines, and queue collected records for `results`.

        All output is read before any of it is delivered, and a second try continues where the first one failed.

        Raises:
            UnreadableOutputError: Some of it cannot be read.
        """
        if instruction != self._begun:
            self._begun, self._given = instruction, 0
        blocks = [(output.uid, block) for output in instruction.outputs for block in self._blocks_of(output)]
        for uid, block in blocks[self._given :]:
            _, as_text = self._collectors[uid]
            if as_text:
                print_lines(pickle.loads(block))
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

    def wait_for_capacity(self) -> None:
        """Wait until the program has taken enough output, or until `interrupt`."""
        with self._changed:
            self._changed.wait_for(lambda: self._interrupted or self._waiting_bytes < _ROOM)
            self._interrupted = False

    def interrupt(self) -> None:
        """Let `wait_for_capacity` return, because the waiting epoch is cancelled."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def end(self, error: Exception | None) -> None:
        """Note the end of the output, and its error."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def next_block(self, uid: str) -> list[Any] | None:
        """Wait for the next records of an operator; return None at the end, or raise the error of a failed job.

        Raises:
            UnreadableOutputError: A record raises where it is unpickled, which it did not in a task.
        """
        blocks = self._blocks[uid]
        with self._changed:
            while not self._changed.wait_for(lambda: blocks or self._ended, SIGNAL_POLL_S):
                pass
            if not blocks:
                if self._error is not None:
                    raise self._error
                return None
            block = blocks.popleft()
            self._waiting_bytes -= len(block)
            self._changed.notify_all()
        try:
            return pickle.loads(block)
        except BaseException as error:  # code of the user's classes
            if isinstance(error, KeyboardInterrupt):
                raise
            name, _ = self._collectors[uid]
            raise UnreadableOutputError(name, uid, f"a record cannot be unpickled here: {error_line(error)}") from error
