"""The objects that the two halves of a source send each other: splits and events."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock._shelf import show


class SourceSplit(ABC):
    """A part of the input that one reader reads: a range of a file, a partition of a topic.

    Splits travel between driver and tasks and are kept in checkpoints, so they pickle and hold data only.

    Source: org.apache.flink.api.connector.source.SourceSplit.
    """

    @abstractmethod
    def split_id(self) -> str:
        """Return the name of the split, which no other split of the same source ever has."""


class SourceEvent:
    """The base of messages that an enumerator and its readers send each other; subclasses pickle.

    Source: org.apache.flink.api.connector.source.SourceEvent.
    """


show("penstock.datastream.connectors.base", SourceEvent, SourceSplit)
