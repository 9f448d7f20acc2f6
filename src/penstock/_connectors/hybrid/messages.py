"""What the enumerator and the readers of a hybrid source tell each other, and keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._api.connectors.serializer import PickleSerializer
from penstock._api.connectors.split import SourceEvent, SourceSplit
from penstock._shelf import show
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.connectors.source import Boundedness, Source, SplitEnumerator

AnySource: TypeAlias = "Source[Any, Any, Any]"


@dataclass(frozen=True, slots=True)
class SourceSwitchContext:
    """What is known when a source follows another.

    Source: org.apache.flink.connector.base.source.hybrid.HybridSource.SourceSwitchContext.

    Args:
        previous_enumerator: The enumerator of the source that has ended.
    """

    previous_enumerator: SplitEnumerator[Any, Any]

    def get_previous_enumerator(self) -> SplitEnumerator[Any, Any]:
        """Return the enumerator of the source that has ended, for example to ask where it ended."""
        return self.previous_enumerator


SourceFactory: TypeAlias = "Callable[[SourceSwitchContext], AnySource]"


@dataclass(frozen=True, slots=True)
class HybridStep:
    """One of the sources, or what makes it once the one before has ended."""

    boundedness: Boundedness
    source: AnySource | None = None
    factory: SourceFactory | None = None


@dataclass(frozen=True, slots=True)
class HybridSplit(SourceSplit):
    """A split of one of the sources.

    The first split of a reader's snapshot is none, but its position: which source it reads, and what it was told.
    """

    index: int
    inner_id: str
    version: int = 0
    data: bytes = b""
    #: The pickled source, if a factory has made it.
    made: bytes | None = None
    #: Of a position: whether the current source has no more splits.
    no_more: bool = False

    def split_id(self) -> str:
        return f"{self.index}: {self.inner_id}"

    @property
    def is_position(self) -> bool:
        return not self.version


@dataclass(frozen=True, slots=True)
class SwitchSource(SourceEvent):
    """To readers: read this source now."""

    index: int
    made: bytes | None


@dataclass(frozen=True, slots=True)
class NoMoreSplitsOfSource(SourceEvent):
    """To a reader: this source, which others follow, has no more splits for it."""

    index: int


@dataclass(frozen=True, slots=True)
class EndOfSource(SourceEvent):
    """To the enumerator: the reader has come to the end of this source; it may be said again."""

    index: int


@dataclass(frozen=True, slots=True)
class InnerEvent(SourceEvent):
    """An event of one of the sources."""

    index: int
    event: SourceEvent


@dataclass(frozen=True, slots=True)
class HybridState:
    """The state of the enumerator."""

    index: int
    made: bytes | None
    version: int
    inner: bytes


def made_source(steps: tuple[HybridStep, ...], index: int, made: bytes | None) -> AnySource:
    source = steps[index].source
    if source is not None:
        return source
    if made is None:
        raise InternalError(f"Source {index + 1} of a HybridSource is not made.")
    return PickleSerializer().deserialize(1, made)


def wrapped(index: int, serializer: Any, split: Any, made: bytes | None) -> HybridSplit:
    return HybridSplit(index, split.split_id(), serializer.get_version() + 1, serializer.serialize(split), made)


def unwrapped(split: HybridSplit, source: AnySource) -> Any:
    return source.get_split_serializer().deserialize(split.version - 1, split.data)


show("penstock.datastream.connectors.hybrid_source", SourceSwitchContext)
