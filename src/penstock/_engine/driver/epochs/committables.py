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
from penstock.errors import CommitFailedError, CommitOutcomeUnknownError, JobGraphError, LostCommittableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock._api.connectors.committer import ReadsCommittables
    from penstock._engine.protocol.metadata import OutstandingCommit

#: So many committables are named in an error.
_NAMED: Final = 8
_UNKNOWN: Final = "Each of these committables needs a decision; penstock savepoint inspect lists all."
_FAILED: Final = (
    "Nothing is lost: each start from this checkpoint tries again (execution.state-recovery.path: latest, or penstock "
    "run -s latest). If the target is never going to take it, start the job once from it with --committable "
    "ID=give-up, or ID=give-up:FILE to have its records in a file (penstock.committables)."
)
_LOST: Final = (
    "Each start from this checkpoint tries again, in case it can be brought back (execution.state-recovery.path: "
    "latest, or penstock run -s latest). Else start the job once from it with --committable ID=give-up "
    "(penstock.committables)."
)
_ONE_OF_THEM: Final = (
    " The committer does not say which of them it is: some may be in the target already, so look there before one is "
    "given up."
)
_NO_COMMITTER: Final = (
    "Nothing is lost: a program in which this uid is the sink's commits them. Else start the job once from there with "
    "--committable ID=give-up for each of them, or ID=give-up:FILE (penstock.committables)."
)


def commit_failed(
    where: str, error: BaseException, commit: OutstandingCommit, places: Sequence[int], contents: str, *, named: bool
) -> CommitFailedError:
    """Return the error of a commit that failed.

    Args:
        where: The committer.
        error: What it raised.
        commit: The commit.
        places: Which of its committables the error is about.
        contents: What the first of them holds.
        named: Whether the committer has said that it is about these.
    """
    ids = committable_ids(commit)
    names = _named([ids[place] for place in places])
    way_out = _LOST if isinstance(error, LostCommittableError) else _FAILED
    way_out = way_out if named or len(places) == 1 else way_out + _ONE_OF_THEM
    if isinstance(error, CommitOutcomeUnknownError):
        way_out = _UNKNOWN
    failed = CommitFailedError(where, error_line(error), names, contents, way_out)
    failed.__cause__ = error
    return failed


def not_committing(commit: OutstandingCommit) -> CommitFailedError:
    """Return the error of a commit whose operator has no committer any more."""
    error = JobGraphError("this operator is not, or no longer, a sink that commits")
    where = f"uid {commit.uid!r}, checkpoint {commit.checkpoint_id}"
    names = _named(committable_ids(commit))
    failed = CommitFailedError(where, str(error), names, "what only such a sink can tell", _NO_COMMITTER)
    failed.__cause__ = error
    return failed


def _named(ids: Sequence[str]) -> tuple[str, ...]:
    more = () if len(ids) <= _NAMED else (f"{len(ids) - _NAMED} more",)
    return (*ids[:_NAMED], *more)


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
