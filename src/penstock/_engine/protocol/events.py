"""Operator events between an enumerator on the driver and its readers in tasks, and the state of readers.

Splits and user events are opaque bytes here: the source's serializers, or pickle, encode them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType

from penstock._engine.protocol.control import AlignmentReport  # noqa: TC001 - msgspec evaluates it
from penstock._engine.protocol.decoders import msgpack_decoder


class AddSplitsEvent(msgspec.Struct, frozen=True, tag="add-splits"):
    """Splits for a reader, each as the split serializer wrote it."""

    splits: tuple[bytes, ...]
    #: Version of the split serializer that wrote them.
    version: int = 0


class NoMoreSplitsEvent(msgspec.Struct, frozen=True, tag="no-more-splits"):
    """Signals a reader that no more splits follow."""


class SourceEventWrapper(msgspec.Struct, frozen=True, tag="source-event"):
    """An event of the source's own from its enumerator, pickled."""

    payload: bytes


class EndOfInputEvent(msgspec.Struct, frozen=True, tag="end-of-input"):
    """Signals all readers that one of them has ended the input of the job."""


OperatorEvent: TypeAlias = AddSplitsEvent | NoMoreSplitsEvent | SourceEventWrapper | EndOfInputEvent


@dataclass(frozen=True, slots=True)
class ReaderState:
    """The state of a source subtask in ``OperatorAck.state``, from which its reader can be created in any process.

    The driver reads it only to return splits to the enumerator at another parallelism.
    """

    splits: tuple[bytes, ...] = ()
    #: Version of the split serializer that wrote them.
    version: int = 0
    #: Whether NoMoreSplitsEvent has arrived; a recreated reader gets it again.
    no_more_splits: bool = False
    #: Opaque: watermark generators, idleness.
    extra: bytes = b""
    #: In a watermark alignment group: as in the ack, for the first epoch after a restart.
    alignment: AlignmentReport | UnsetType = UNSET


#: Any operator event.
_EVENT: Final = msgpack_decoder(cast("type[OperatorEvent]", OperatorEvent))


def encode_event(event: OperatorEvent) -> bytes:
    """Return the bytes of an event."""
    return msgspec.msgpack.encode(event)


def decode_event(data: bytes) -> OperatorEvent:
    """Decode an event; raises msgspec.ValidationError on anything else."""
    return _EVENT.decode(data)
