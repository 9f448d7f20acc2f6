"""The hybrid source and its builder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._api.connectors.source import Boundedness, Source
from penstock._connectors.hybrid.enumerator import HybridEnumerator
from penstock._connectors.hybrid.messages import (
    AnySource,
    HybridSplit,
    HybridState,
    HybridStep,
    SourceFactory,
)
from penstock._connectors.hybrid.reader import HybridReader
from penstock._shelf import show
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.connectors.reader import SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext


class HybridSource(Source[Any, HybridSplit, HybridState]):
    """Reads bounded sources one after the other, and then the last one, which may be unbounded.

    A source begins when all readers have come to the end of the one before. A function may make it then, so that it
    begins where the one before has ended. While sources follow, the job counts as processing a backlog.

    Source: org.apache.flink.connector.base.source.hybrid.HybridSource (FLIP-150).

    Example:
        >>> from penstock.datastream.connectors.number_seq import NumberSequenceSource
        >>> source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(NumberSequenceSource(4, 6)).build()
        >>> source.get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    def __init__(self, steps: tuple[HybridStep, ...]) -> None:
        self._steps = steps

    @staticmethod
    def builder(first_source: AnySource) -> HybridSourceBuilder:
        """Begin with a source."""
        return HybridSourceBuilder(first_source)

    def get_boundedness(self) -> Boundedness:
        """Return that of the last source."""
        return self._steps[-1].boundedness

    def get_produced_type(self) -> Any:
        """Return the type of the first source; the others have to make records of the same type."""
        source = self._steps[0].source
        return None if source is None else source.get_produced_type()

    def storage_paths(self) -> tuple[str, ...]:
        """Return those of the sources that are known before the job runs."""
        known = (step.source for step in self._steps if step.source is not None)
        return tuple(path for source in known for path in source.storage_paths())

    def create_enumerator(self, enum_context: SplitEnumeratorContext[HybridSplit]) -> HybridEnumerator:
        """Begin with the first source."""
        return HybridEnumerator(self._steps, enum_context)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[HybridSplit], checkpoint: HybridState
    ) -> HybridEnumerator:
        """Continue with the source of the checkpoint."""
        return HybridEnumerator(self._steps, enum_context, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> HybridReader:
        """Make a reader; it learns from its splits and events which source it reads."""
        return HybridReader(self._steps, reader_context)


class HybridSourceBuilder:
    """Builds a HybridSource.

    Source: ``pyflink.datastream.connectors.hybrid_source.HybridSourceBuilder``.

    Args:
        first_source: The first source.
    """

    def __init__(self, first_source: AnySource) -> None:
        self._steps: list[HybridStep] = []
        self.add_source(first_source)

    def add_source(
        self, source: AnySource | SourceFactory, boundedness: Boundedness | None = None
    ) -> HybridSourceBuilder:
        """Add a source.

        Args:
            source: The source, or a function that makes it of a SourceSwitchContext when the one before has ended.
            boundedness: That of the source which a function makes; needed there only.

        Raises:
            UnsupportedOperationError: The source before is unbounded, or the boundedness is not given.
        """
        if self._steps and self._steps[-1].boundedness is not Boundedness.BOUNDED:
            raise UnsupportedOperationError("a source after an unbounded one", "the one before never ends")
        if isinstance(source, Source):
            self._steps.append(HybridStep(source.get_boundedness(), source=cast("AnySource", source)))
        elif boundedness is None:
            reason = "give the Boundedness of what it makes as the second argument"
            raise UnsupportedOperationError("a function that makes a source", reason)
        else:
            self._steps.append(HybridStep(boundedness, factory=source))
        return self

    def build(self) -> HybridSource:
        """Return the source."""
        return HybridSource(tuple(self._steps))


show("penstock.datastream.connectors.hybrid_source", HybridSource, HybridSourceBuilder)
