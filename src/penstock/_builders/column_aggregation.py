"""The aggregates of columns that a program has asked for, and the type of their results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._api.functions.field_key import FieldKey
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.graph.pickling import dumps_members
from penstock._engine.graph.stream_graph import Partitioning
from penstock._engine.operators.columnar.column_aggregates import KEY, PARTS, ColumnAggregates
from penstock._engine.operators.factories.partitions import ColumnPartialsFactory, ColumnTotalsFactory
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._builders.pipeline import Pipeline
    from penstock._engine.graph.stream_graph import StreamEdge, StreamNode
    from penstock.common.typeinfo import TypeInformation


def column_aggregates(
    selector: object, aggregates: Mapping[str, str | Sequence[str]], between: Sequence[str] = ()
) -> ColumnAggregates:
    """Return the aggregates that ``aggregate_batches`` was called with.

    Args:
        selector: The key selector of the stream.
        aggregates: As given.
        between: Columns between the key and the aggregates.

    Raises:
        ValueError: There is no such aggregate, or none at all, or a result is named as the key is.
        UnsupportedOperationError: The stream is not keyed by the name of a column.
    """
    if not isinstance(selector, FieldKey):
        reason = 'it aggregates by a column; name it: key_by("column").aggregate_batches(...)'
        raise UnsupportedOperationError("aggregate_batches() by a function", reason)
    pairs = [
        (column, function)
        for column, functions in aggregates.items()
        for function in ([functions] if isinstance(functions, str) else functions)
    ]
    unknown = next((function for _, function in pairs if function not in PARTS), None)
    if unknown is not None or not pairs:
        found = "none" if unknown is None else repr(unknown)
        msg = f"The aggregates of a column are {', '.join(PARTS)}; got {found}."
        raise ValueError(msg)
    made = ColumnAggregates(selector.field, list(dict.fromkeys(pairs)))
    if made.key in (*between, *made.names):
        msg = f"The results have a column {made.key!r}, as the key is named; give the key another name."
        raise ValueError(msg)
    return made


def column_totals(
    pipeline: Pipeline,
    edges: tuple[StreamEdge, ...],
    selector: object,
    aggregates: Mapping[str, str | Sequence[str]],
    declared: TypeInformation | None,
) -> tuple[StreamNode, TypeInformation | None]:
    """Add the operators that aggregate columns by key, before and behind the shuffle.

    Args:
        pipeline: The operators of the environment.
        edges: The keyed stream.
        selector: Its key selector.
        aggregates: As ``aggregate_batches`` was given them.
        declared: The declared type of the records.

    Returns:
        The operator of the results, and their type.

    Raises:
        ValueError: See `column_aggregates`.
        UnsupportedOperationError: See `column_aggregates` and `aggregated_type`.
    """
    wanted = column_aggregates(selector, aggregates)
    partials = ColumnPartialsFactory(wanted, declared)
    by_key = Partitioning(PartitionerKind.HASH, dumps_members("KeyBy", {"key_selector": FieldKey(KEY)}))
    parts = tuple(replace(pipeline.attached(partials, "partial results", edge), partitioning=by_key) for edge in edges)
    node = pipeline.add_operator(ColumnTotalsFactory(wanted, declared), "Aggregate", parts)
    return node, aggregated_type(declared, wanted)


def aggregated_type(
    type_info: TypeInformation | None, aggregates: ColumnAggregates, between: Sequence[str] = ()
) -> TypeInformation | None:
    """Return the type of the results of aggregates, None where the columns are not declared.

    Args:
        type_info: The type of the records.
        aggregates: The aggregates.
        between: Columns of whole numbers between the key and the aggregates.

    Raises:
        UnsupportedOperationError: The type lacks a column, or a column cannot be aggregated in that way.
    """
    if not isinstance(type_info, RowTypeInfo):
        return None
    types = dict(zip(type_info.get_field_names(), type_info.get_field_types(), strict=True))
    missing = next((name for name in (aggregates.key, *dict(aggregates.parts)) if name not in types), None)
    if missing is not None:
        operation = f"aggregate_batches() of the column {missing!r}"
        raise UnsupportedOperationError(operation, f"the records are declared to have {', '.join(types)}")
    results: list[TypeInformation] = []
    for function, places in aggregates.places:
        column, _ = aggregates.parts[places[0]]
        results.append(_result_type(function, column, types[column]))
    names = [aggregates.key, *between, *aggregates.names]
    return Types.ROW_NAMED(names, [types[aggregates.key], *[Types.LONG()] * len(between), *results])


def _result_type(function: str, column: str, type_info: TypeInformation) -> TypeInformation:
    if function == "count":
        return Types.LONG()
    if function in {"min", "max"}:
        return type_info
    if type_info in (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BOOLEAN()):
        return Types.LONG() if function == "sum" else Types.DOUBLE()
    if type_info in (Types.FLOAT(), Types.DOUBLE()):
        return Types.DOUBLE()
    if type_info == Types.BIG_DEC():
        return Types.BIG_DEC() if function == "sum" else Types.DOUBLE()
    operation = f"aggregate_batches() with {function!r} of the column {column!r}"
    raise UnsupportedOperationError(operation, f"it is declared as {type_info!r}, which is no number")
