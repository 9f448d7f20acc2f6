"""What an operator is, as the graph carries it: a frozen class for each operator, of which tasks make the operator.

The fields of a factory are what the program has given. They are pickled one by one when the operator is added, so that
an error names the object at fault; the class itself travels by its name. What the engine asks about operators of a kind
stands in the class, and nowhere else.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from penstock._engine.operators.base import Operator


class OperatorRole(Enum):
    """What the engine itself does with an operator, beside running it in a chain."""

    TRANSFORMATION = auto()
    SOURCE = auto()  #: has an enumerator in the driver
    WATERMARKS = auto()  #: may make idle inputs wait
    DECLARED_TYPE = auto()  #: belongs to the operator before it
    COMBINING = auto()  #: stands before a shuffle, and belongs to the operator behind it
    SINK_WRITER = auto()
    COMMITTABLES = auto()  #: the end of a sink's pre-commit topology
    COMMITTED = auto()  #: the beginning of a sink's post-commit topology, which the driver feeds
    CACHE = auto()
    COLLECT = auto()  #: gives records to the program


@dataclass(frozen=True, eq=False)
class OperatorFactory(ABC):
    """Makes an operator of what the program has given. Source: Flink's ``StreamOperatorFactory``."""

    #: The name of the kind in checkpoints and generated uids; it must not change.
    kind: ClassVar[str]
    role: ClassVar[OperatorRole] = OperatorRole.TRANSFORMATION
    #: Whether it has state that a checkpoint holds, whatever the program has given.
    always_keeps_state: ClassVar[bool] = False
    #: Whether its functions have the key of a record, and so may have keyed state.
    has_key: ClassVar[bool] = False
    #: Whether its state is a list of items, which other subtasks may take over.
    has_items: ClassVar[bool] = False
    #: Whether it works on whole partitions. A source may run in several Spark jobs, and a partition is read in one, so
    #: its vertex has no source.
    takes_partitions: ClassVar[bool] = False
    #: Whether it reads its input itself, so that it is the head of its vertex.
    reads_its_input: ClassVar[bool] = False

    @abstractmethod
    def create(self) -> Operator:
        """Return the operator of a streaming job."""

    def create_in_batch(self) -> Operator:
        """Return the operator of a batch job."""
        return self.create()

    @property
    def keeps_state(self) -> bool:
        """Whether it may have state that a checkpoint holds."""
        return self.always_keeps_state

    @property
    def is_combinable(self) -> bool:
        """Whether a batch job may combine its input before the shuffle, see `combined`."""
        return False

    @classmethod
    def combined(cls) -> tuple[type[OperatorFactory], type[OperatorFactory]] | None:
        """Return the factories of what combines before a shuffle, and of what takes the partial results.

        Both have the fields of this one. None where nothing combines.
        """
        return None

    @classmethod
    def loads(cls, payload: bytes) -> Self:
        """Return the factory of pickled members; unpickles what the program has given, which may raise anything."""
        return cls(**pickle.loads(payload))

    def members(self) -> dict[str, Any]:
        """Return what the program has given, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
