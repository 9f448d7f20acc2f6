"""Decoders of declared types, each made once, by one thread at a time.

`msgspec` notes on a class what it knows of it before it knows all, because a type may name itself. A second thread that
decodes the class for the first time at the same moment takes what is there, and the process ends with a segmentation
fault. So all decoders of classes are made here, under one lock, and `msgspec` is never given a class with the data.
A process is forked while no decoder is being made: the child would have the class half known, and the lock for ever.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")
    D = TypeVar("D")

_lock: Final = threading.Lock()
_msgpack: Final[dict[Any, msgspec.msgpack.Decoder[Any]]] = {}
_json: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def msgpack_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    r"""Return the decoder of a type from MessagePack.

    Example:
        >>> msgpack_decoder(int).decode(b"\x07")
        7
    """
    return _msgpack.get(kind) or _made(kind, _msgpack, msgspec.msgpack.Decoder)


def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type from JSON.

    Example:
        >>> json_decoder(int).decode(b"7")
        7
    """
    return _json.get(kind) or _made(kind, _json, msgspec.json.Decoder)


def _made(kind: Any, decoders: dict[Any, D], make: Callable[[Any], D]) -> D:
    with _lock:
        return decoders.setdefault(kind, make(kind))
