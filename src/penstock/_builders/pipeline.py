"""The operators that a program has built since its last execution."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from penstock._builders.belonging import key_type, split_class
from penstock._builders.keyed_state_check import refuse_keyed_state_without_key
from penstock._builders.origin import calling_line
from penstock._engine.graph.fingerprint import fingerprint
from penstock._engine.graph.pickling import dumps_members
from penstock._engine.graph.stream_graph import Chaining, StreamEdge, StreamNode, with_ancestors
from penstock._engine.operators.factories.functions import DeclaredTypeFactory
from penstock._engine.operators.factories.sources_and_sinks import CacheFactory
from penstock.common._typeinfo.base import identity
from penstock.common.conversion import conversion
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.operators.factories.sources_and_sinks import CommittedFactory, SourceFactory
    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.common.typeinfo import TypeInformation


#: The pipelines of this process with unexecuted operators, and whether anything was executed.
_waiting: set[int] = set()
_executed = False


def never_executed() -> bool:
    """Tell whether this process has built operators and executed none, which is probably a mistake."""
    return bool(_waiting) and not _executed


class Pipeline:
    """The operators of one environment."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._pending: list[StreamNode] = []
        self._side_types: dict[tuple[int, str], TypeInformation] = {}
        self._shapers: dict[tuple[int, str | None], StreamNode] = {}

    def add_source(self, name: str, factory: SourceFactory, *, bounded: bool) -> StreamNode:
        """Add a source; it runs once something reads from it."""
        return self._node(factory, name, (), bounded=bounded)

    def add_operator(
        self,
        factory: OperatorFactory,
        name: str,
        inputs: tuple[StreamEdge, ...],
        *,
        sized_like: StreamNode | None = None,
        full_window: bool = False,
    ) -> StreamNode:
        """Add an operator; it runs with the next execution, even if nothing reads from it.

        Raises:
            UnpicklableFunctionError: One of the members cannot be pickled.
        """
        node = self._node(factory, name, inputs, sized_like=sized_like)
        node.full_window = full_window
        self._pending.append(node)
        _waiting.add(id(self))
        return node

    def output(
        self, operator: StreamNode, type_info: TypeInformation, tag: str | None = None, *, conform: bool = True
    ) -> StreamEdge:
        """Return an output of an operator, with its records converted to the declared type.

        Args:
            operator: The operator.
            type_info: The type of its records.
            tag: The side output; None for the main output.
            conform: False if the records have the type already.

        Raises:
            UnsupportedOperationError: The side output was requested before with another type.
        """
        if tag is not None:
            known = self._side_types.setdefault((operator.id, tag), type_info)
            if identity(known) != identity(type_info):
                operation = f"side output {tag!r} of {operator} with the type {type_info!r}"
                raise UnsupportedOperationError(operation, f"it was already asked for with the type {known!r}")
        if not conform or conversion(type_info, "") is None:
            return StreamEdge(operator, tag)
        shaper = self._shapers.get((operator.id, tag))
        if shaper is None:
            factory, edge = DeclaredTypeFactory(type_info), StreamEdge(operator, tag)
            shaper = self._node(factory, "declared type", (edge,), sized_like=operator, owner=operator)
            self._shapers[operator.id, tag] = shaper
        return StreamEdge(shaper)

    def attached(self, factory: OperatorFactory, name: str, edge: StreamEdge) -> StreamEdge:
        """Return the output of a new operator that is attached to the sender of an edge, in the same vertex."""
        source = edge.source
        given = StreamEdge(source, edge.tag)
        node = self._node(factory, name, (given,), sized_like=source, owner=source.operator())
        return StreamEdge(node, input_index=edge.input_index)

    def add_committed(self, name: str, factory: CommittedFactory, writer: StreamNode) -> StreamNode:
        """Add the node that gives what a sink has committed; it runs once something reads from it."""
        node = self._node(factory, name, (), sized_like=writer)
        node.sink_writer = writer
        return node

    def add_cache(self, edge: StreamEdge) -> StreamNode:
        """Add a node that reads an edge and stands for it in later jobs; it runs once something reads from it."""
        return self._node(CacheFactory(None), "CacheWrite", (edge,), sized_like=edge.source)

    def add_for_own_job(self, factory: OperatorFactory, name: str, inputs: tuple[StreamEdge, ...]) -> StreamNode:
        """Add an operator that the next execution does not run: it has a job of its own."""
        return self._node(factory, name, inputs)

    def nodes(self) -> list[StreamNode]:
        """Return the nodes of the next execution: operators added since the last one, and all operators upstream."""
        return with_ancestors(self._pending)

    def last_id(self) -> int:
        """Return the id of the operator that was added last; 0 before the first."""
        return max((node.id for node in self._pending), default=0)

    def belong_to(self, writer: StreamNode, after: int) -> None:
        """Note that the operators added after an id are parts of a sink.

        Args:
            writer: The sink's writer.
            after: The id.
        """
        for node in self._pending:
            if node.id > after and node is not writer and node.sink_writer is None:  # else it is of a sink inside
                node.sink_writer = writer
                if node.parallelism is None and not node.non_parallel and node.sized_like is None:
                    node.sized_like = writer

    def clear(self) -> None:
        """Forget all operators; existing streams stay usable."""
        self._pending.clear()
        _waiting.discard(id(self))

    def execute(self, nodes: Iterable[StreamNode]) -> None:
        """Note that operators are being executed, and forget them: the next execution does not run them again."""
        global _executed  # noqa: PLW0603 - it is about the process
        _executed = True
        executed = {node.id for node in nodes}
        self._pending = [node for node in self._pending if node.id not in executed]
        if not self._pending:
            _waiting.discard(id(self))

    def _node(
        self,
        factory: OperatorFactory,
        name: str,
        inputs: tuple[StreamEdge, ...],
        *,
        sized_like: StreamNode | None = None,
        owner: StreamNode | None = None,
        bounded: bool = True,
    ) -> StreamNode:
        refuse_keyed_state_without_key(factory)
        members = factory.members()
        return StreamNode(
            id=next(self._ids),
            name=name,
            factory=type(factory),
            payload=dumps_members(name, members),
            inputs=inputs,
            created_at=calling_line(),
            sized_like=sized_like,
            chaining=Chaining.ALWAYS,
            owner=owner,
            bounded=bounded,
            stateful=factory.keeps_state,
            combinable=factory.is_combinable,
            fingerprint=_fingerprint(members),
            key_type=key_type(members),
            splits=split_class(members),
        )


def set_factory(node: StreamNode, factory: OperatorFactory) -> None:
    """Make another operator of a node, which keeps its place."""
    node.factory, node.payload = type(factory), dumps_members(node.name, factory.members())


def _fingerprint(members: Mapping[str, object]) -> str:
    """Return the digest of an operator; "" without one, which counts only where a start compares operators by it."""
    try:
        return fingerprint(members)
    except Exception:  # noqa: BLE001 - pickling runs code of the user's classes, which may raise anything
        return ""
