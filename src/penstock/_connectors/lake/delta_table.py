"""Access to Delta tables: the library, the options of object stores, and the table's folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock._connectors.lake.stores import refused_by_the_store, s3_of, types_in
from penstock.common.libraries import library_of
from penstock.errors import LakeTableError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The reader features that are supported; a table with any other one is refused.
_KNOWN_FEATURES = frozenset({"timestampNtz"})
_WITHOUT_FEATURES = 3
#: The features of tables to which plain files may be added.
_ADDED_TO = frozenset(
    {"timestampNtz", "appendOnly", "invariants", "checkConstraints", "generatedColumns", "identityColumns"}
    | {"changeDataFeed", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "domainMetadata"}
)
_WRITER_WITH_FEATURES = 7
_CONSTRAINT = "delta.constraints."
#: By the beginning of a key in a column's metadata: what it is.
_RULES_OF_COLUMNS = {
    "delta.invariants": "the rule",
    "delta.generationExpression": "the generated value",
    "delta.identity.": "the identity",
}


def deltalake() -> Any:
    """Return the library.

    Raises:
        MissingExtraError: It is not installed, or too old.
    """
    return library_of("delta")


def delta_options(uri: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the library's options for a table: those that are given, over the job's ``s3.…`` keys.

    Raises:
        PathError: The job's keys contradict each other.
    """
    found = s3_of(uri)
    if found is None or given:
        return dict(given)
    endpoint = found.endpoint or ""
    where = {
        "aws_endpoint": endpoint,
        "aws_region": found.region,
        "aws_allow_http": "true" * endpoint.startswith("http:"),
    }
    keys = {"aws_access_key_id": found.access_key, "aws_secret_access_key": found.secret_key}
    others = {"aws_session_token": found.token, "aws_virtual_hosted_style_request": found.virtual_hosted}
    return {name: value for name, value in (where | keys | others).items() if value}


def folder_of(uri: str, options: Mapping[str, str], *, make: bool = False) -> Any:
    """Return the table's folder as a file system of Arrow's.

    Args:
        uri: The table's folder.
        options: As of ``delta_options``.
        make: Whether a local folder that does not exist is made.

    Raises:
        LakeTableError: It cannot be made.
    """
    import pyarrow.fs as arrow_fs

    if "://" not in uri:
        if make:
            with refused_by_the_store(f"Making the folder of the Delta table {uri}"):
                Path(uri).mkdir(parents=True, exist_ok=True)
        return arrow_fs.SubTreeFileSystem(uri, arrow_fs.LocalFileSystem())
    from deltalake.fs import DeltaStorageHandler

    return arrow_fs.PyFileSystem(cast("Any", DeltaStorageHandler)(uri, dict(options)))


def open_target(uri: str, options: Mapping[str, str], schema: Any = None) -> Any:
    """Return a table that is to be written, as it is now.

    Args:
        uri: The table's folder.
        options: As of ``delta_options``.
        schema: What it is made of where there is none; None to make none.

    Raises:
        LakeTableError: There is no such table, or its store does not answer.
        UnsupportedTableError: The library cannot make such a table.
    """
    library = deltalake()
    with refused_by_the_store(_writing(uri), library.exceptions.DeltaError):
        if not library.DeltaTable.is_deltatable(uri, dict(options) or None):
            if schema is None:
                reason = "there is no table in that folder, and a job that continues from a checkpoint makes none"
                way_out = (
                    "if it was deleted, restore it, or start the job without a checkpoint; if the sink is a new one of "
                    "the job, make the table by hand"
                )
                raise LakeTableError(_writing(uri), f"{reason}; {way_out}")
            _check_maps(uri, schema)
            with suppress(library.exceptions.CommitFailedError):  # another writer makes it at the same time
                library.DeltaTable.create(uri, schema, mode="ignore", storage_options=dict(options) or None)
        return library.DeltaTable(uri, storage_options=dict(options) or None)


def open_version(uri: str, version: int | None, options: Mapping[str, str]) -> Any:
    """Return a version of a table that can be read here.

    Raises:
        LakeTableError: There is no such table or version.
        UnsupportedTableError: Readers need a feature that this one does not have.
    """
    library = deltalake()
    what = f"Reading the Delta table {uri}"
    try:
        table = library.DeltaTable(uri, version=version, storage_options=dict(options) or None)
    except library.exceptions.TableNotFoundError as error:
        raise LakeTableError(what, f"there is no table in that folder ({error})") from None
    except (library.exceptions.DeltaError, OSError) as error:
        which = "it" if version is None else f"its version {version}"
        raise LakeTableError(what, f"{which} cannot be opened ({error}); versions go when the log is cleaned") from None
    protocol = table.protocol()
    features: set[str] = set(protocol.reader_features or ())
    if protocol.min_reader_version > _WITHOUT_FEATURES:
        reason = f"it needs reader version {protocol.min_reader_version}, and 3 is the highest that is known"
        raise UnsupportedTableError(what, reason)
    if protocol.min_reader_version == 2:  # of the time before features had names
        features.add("columnMapping")
    if unknown := sorted(features - _KNOWN_FEATURES):
        reason = (
            f"it needs the reader features {', '.join(unknown)}, which are not supported; switch them off (such as by "
            "ALTER TABLE … DROP FEATURE) or read the table with Spark, as a DataFrame"
        )
        raise UnsupportedTableError(what, reason)
    return table


def check_writable(table: Any, schema: Any) -> None:
    """Check that files of a schema may be appended to a table.

    Raises:
        UnsupportedTableError: The table is partitioned, has other columns, or rules for rows, which nobody would check.
    """
    import pyarrow as pa

    what = _writing(table.table_uri)
    if features := _unknown_features(table):
        reason = f"it needs the features {', '.join(features)}, which files that are added here would not have"
        raise UnsupportedTableError(what, f"{reason}; switch them off, or write it with Spark")
    if rules := _rules_of(table):
        reason = f"it has {', '.join(rules)}, which are not checked or computed here; drop them, or write it with Spark"
        raise UnsupportedTableError(what, reason)
    if columns := table.metadata().partition_columns:
        reason = f"it is partitioned by {', '.join(columns)}, and only tables without partitions are written"
        raise UnsupportedTableError(what, reason)
    there: Any = pa.schema(table.schema().to_arrow())
    wanted = library_schema(schema)
    for field in wanted:
        place = there.get_field_index(field.name)
        if place < 0 or there.field(place).type != field.type:
            found = "has no such column" if place < 0 else f"has it as {there.field(place).type}"
            reason = f"the sink's column {field.name!r} is {field.type}, and the table {found}; give it its schema"
            raise UnsupportedTableError(what, reason)
        if field.nullable and not there.field(place).nullable:
            reason = f"its column {field.name!r} must not be null, and the sink's may be; declare it nullable=False"
            raise UnsupportedTableError(what, reason)
    missing = [field.name for field in there if not field.nullable and field.name not in wanted.names]
    if missing:
        raise UnsupportedTableError(what, f"the sink's schema lacks {', '.join(missing)}, which must not be null")


def _writing(uri: str) -> str:
    return f"Writing into the Delta table {uri}"


def _unknown_features(table: Any) -> list[str]:
    """Return the features of a table by which its files would have to be written otherwise."""
    protocol = table.protocol()
    found = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} - _ADDED_TO
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        found.add("columnMapping")
    if protocol.min_writer_version > _WRITER_WITH_FEATURES:
        found.add(f"of writer version {protocol.min_writer_version}")
    return sorted(found)


def writable_schema(uri: str, schema: Any) -> Any:
    """Return the schema of files for a table, with the types that the table has.

    Raises:
        UnsupportedTableError: A column is of a type that a Delta table does not have.
    """
    import pyarrow as pa

    for field in schema:
        reason = next((why for one in types_in(field.type) if (why := _refused(one))), None)
        if reason is None:
            try:
                library_schema(pa.schema([field]))
            except Exception as error:  # noqa: BLE001 - the library raises no class of its own
                reason = str(error).partition("\n")[0]
        if reason is not None:
            told = f"the sink's column {field.name!r} is {field.type}, which no Delta table has ({reason})"
            raise UnsupportedTableError(_writing(uri), f"{told}; give it another type in the schema")
    return schema


def _check_maps(uri: str, schema: Any) -> None:
    """Refuse a new table with moments without a zone in maps alone, for which the library declares no such feature."""
    import pyarrow as pa

    types: Any = pa.types
    for field in schema:
        in_maps = [one for found in types_in(field.type) if types.is_map(found) for one in types_in(found)]
        if any(types.is_timestamp(one) and one.tz is None for one in in_maps):
            told = f"the sink's column {field.name!r} is {field.type}, and times in maps of a new table need a zone"
            raise UnsupportedTableError(_writing(uri), f"{told}; give them one, or make the table with Spark")


def _refused(arrow_type: Any) -> str | None:
    import pyarrow as pa

    kinds: Any = pa.types
    if kinds.is_unsigned_integer(arrow_type):
        return "integers have signs there: take the next wider type"
    if kinds.is_timestamp(arrow_type) and arrow_type.unit == "ns":
        return "timestamps have microseconds there"
    return "its columns have types" if kinds.is_null(arrow_type) else None


def _rules_of(table: Any) -> list[str]:
    """Return what a table wants of its rows beyond types and nulls: constraints, and values that writers compute."""
    names = (key.removeprefix(_CONSTRAINT) for key in table.metadata().configuration if key.startswith(_CONSTRAINT))
    rules = [f"the constraint {name}" for name in names]
    for field in table.schema().fields:
        found = (
            kind for key, kind in _RULES_OF_COLUMNS.items() if any(name.startswith(key) for name in field.metadata)
        )
        rules += [f"{kind} of the column {field.name}" for kind in found]
    return rules


def library_schema(schema: Any) -> Any:
    """Return a schema with the types that it has when a Delta table was made of it."""
    import pyarrow as pa
    from deltalake import Schema

    return pa.schema(cast("Any", Schema.from_arrow(schema).to_arrow()))
