"""What a committable holds, for the error of a commit that failed and for the file of one that is given up."""

from __future__ import annotations

import base64
import json
import pickle
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.protocol.cloudpickled import dumps
from penstock._engine.protocol.committables import committable_ids
from penstock._engine.protocol.versioned import unpack
from penstock.common.interrupts import is_interrupt
from penstock.common.redaction import shown_text
from penstock.common.user_values import error_line, short_repr
from penstock.errors import CommitFailedError, CommitOutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock._api.connectors.committer import ReadsCommittables
    from penstock._engine.protocol.metadata import OutstandingCommit

#: So many committables are named in an error.
_NAMED: Final = 8
_UNKNOWN: Final = (
    "Look into the target, and start the job once with --committable ID=skip for each of them where it has the "
    "records, or ID=publish where it does not (penstock.committables; penstock savepoint inspect lists all)."
)
_FAILED: Final = (
    "Nothing is lost: each start tries again. If the target is never going to take it, start the job once with "
    "--committable ID=give-up, or ID=give-up:FILE to have its records in a file (penstock.committables)."
)


def commit_failed(
    where: str, error: BaseException, commit: OutstandingCommit, places: Sequence[int], contents: str
) -> CommitFailedError:
    """Return the error of a commit that failed.

    Args:
        where: The committer.
        error: What it raised.
        commit: The commit.
        places: Which of its committables the error is about.
        contents: What the first of them holds.
    """
    ids = committable_ids(commit)
    names = [ids[place] for place in places[:_NAMED]]
    if len(places) > _NAMED:
        names.append(f"{len(places) - _NAMED} more")
    way_out = _UNKNOWN if isinstance(error, CommitOutcomeUnknownError) else _FAILED
    failed = CommitFailedError(where, error_line(error), tuple(names), contents, way_out)
    failed.__cause__ = error
    return failed


def contents_of(readers: Iterable[ReadsCommittables[Any]], committable: Any) -> str:
    """Return what a committable holds as text, and the first record of it where that can be read; never raises."""
    for reader in readers:
        try:
            text = reader.describe(committable)
            records = reader.read_records(committable)
            first = [] if records is None else list(islice(records, 1))
        except BaseException as error:  # the error of the commit is told in any case
            if is_interrupt(error):
                raise
            return shown_text(f"{short_repr(committable)}, of which its committer tells nothing ({short_repr(error)})")
        return shown_text(f"{text}, first of all {short_repr(first[0])}" if first else text)
    return shown_text(short_repr(committable))


def lines_of(readers: Iterable[ReadsCommittables[Any]], committable: Any, commit: OutstandingCommit) -> Iterator[str]:
    """Iterate the JSON lines of a file with the records of a committable.

    A record that JSON holds unchanged is a line of its own; any other is an object with its repr and its pickle in
    base64. Where the committer cannot read records, one line has the bytes of the committable.

    Args:
        readers: The committers.
        committable: The committable.
        commit: A commit with this one alone.
    """
    for reader in readers:
        records = reader.read_records(committable)
        if records is not None:
            yield from map(_line, records)
            return
    [name], [item] = committable_ids(commit), commit.committables
    version, data = unpack(item.payload)
    unread = {"committable": name, "sink": commit.uid, "subtask": item.subtask, "serializer_version": version}
    yield json.dumps({**unread, "base64": base64.b64encode(data).decode()})


def _line(record: Any) -> str:
    try:
        line = json.dumps(record, ensure_ascii=True)
        if _same(json.loads(line), record):
            return line
    except (TypeError, ValueError, RecursionError):
        pass
    return json.dumps({"repr": short_repr(record), "pickle": base64.b64encode(_pickled(record)).decode()})


def _same(read: Any, record: Any) -> bool:
    """Tell whether a value that was read is the value that was written, of the same types all through."""
    kind = cast("type[Any]", type(read))
    if kind is not type(record):
        return False
    if kind is dict:
        return list(map(type, read)) == list(map(type, record)) and _same(list(read.items()), list(record.items()))
    if kind in {list, tuple}:
        return len(read) == len(record) and all(map(_same, read, record))
    return read == record


def _pickled(record: Any) -> bytes:
    try:
        return pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - what only cloudpickle takes
        return dumps(record)
