"""The methods of streams that make windows, with and without keys, and the error about methods of keyed streams."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, Never, TypeVar, cast

from penstock._api.windows.unaligned_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock._builders.partitions import FullWindows, KeyedFullWindows
from penstock._builders.windows.joined import CoGroupedStreams, JoinedStreams
from penstock._builders.windows.windowed import WindowedStream
from penstock._builders.windows.windowed_all import AllWindowedStream
from penstock.errors import KeyRequiredError

if TYPE_CHECKING:
    from penstock._api.windows.window import CountWindow, WindowAssigner
    from penstock._builders.stream import DataStream, KeyedStream

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
W = TypeVar("W")

#: The methods that only keyed streams have.
OF_KEYED_STREAMS: Final = frozenset(
    {"aggregate_batches", "window", "count_window", "interval_join", "reduce", "sum", "min", "max", "min_by", "max_by"}
)


class AllWindowing(FullWindows[T]):
    """Windows over all records of a stream, full window partitions, and joins and co-groups with another stream."""

    def window_all(self, window_assigner: WindowAssigner[Any, W]) -> AllWindowedStream[T, W]:
        """Group all records into windows, regardless of keys and in one subtask.

        Args:
            window_assigner: Says which windows a record belongs to.

        Raises:
            TypeError: The assigner is no WindowAssigner.
        """
        return AllWindowedStream(cast("Any", self), window_assigner)

    def join(self, other_stream: DataStream[U]) -> JoinedStreams[T, U]:
        """Join this stream with another one by key and window; not in PyFlink.

        Args:
            other_stream: The second stream.

        Raises:
            TypeError: It is no stream.
            UnsupportedOperationError: It belongs to another environment.
        """
        stream = cast("DataStream[T]", self)
        stream._check_stream("join", other_stream)
        return JoinedStreams(stream, other_stream)

    def co_group(self, other_stream: DataStream[U]) -> CoGroupedStreams[T, U]:
        """Co-group this stream with another one by key and window; not in PyFlink.

        Args:
            other_stream: The second stream.

        Raises:
            TypeError: It is no stream.
            UnsupportedOperationError: It belongs to another environment.
        """
        stream = cast("DataStream[T]", self)
        stream._check_stream("co_group", other_stream)
        return CoGroupedStreams(stream, other_stream)

    @abstractmethod
    def _origin_name(self) -> str:
        """Return the name of the operator that the stream comes from."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            """Raise KeyRequiredError for a method of keyed streams."""
            if name not in OF_KEYED_STREAMS:
                super().__getattribute__(name)  # raises again, with the explanation of absent names
            hint = "call key_by(...) before it"
            if "window" in name:
                hint += ", or window_all(...) in its place"
            raise KeyRequiredError(name, self._origin_name(), hint)


class KeyedWindowing(KeyedFullWindows[T], Generic[T, K]):
    """Windows of the records of each key."""

    def window(self, window_assigner: WindowAssigner[Any, W]) -> WindowedStream[T, K, W]:
        """Group the records of each key into windows.

        Args:
            window_assigner: Says which windows a record belongs to.

        Raises:
            TypeError: The assigner is no WindowAssigner.
        """
        return WindowedStream(cast("KeyedStream[T, K]", self), window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T, K, CountWindow]:
        """Group the records of each key into windows of a number of records; a window fires when it is full.

        Args:
            size: The number of records in a window.
            slide: The number of records between the starts of two windows; 0 for windows side by side.

        Raises:
            ValueError: The size is not positive, or the slide is negative.
        """
        assigner = CountSlidingWindowAssigner(size, slide) if slide else CountTumblingWindowAssigner(size)
        return self.window(assigner)
