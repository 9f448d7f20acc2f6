"""Merges the file sink's small files between its writers and its committer (decision 54).

The coordinator, one subtask, collects finished parts by bucket until the strategy is content. Then compactors merge the
staged bytes of each bucket into one new part. Parts that wait are state of the coordinator; nothing of them is visible,
and the merged part appears in their place.
"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from penstock._api.connectors.topology import CheckpointFunction, CommittableWithLineage
from penstock._connectors.files.opening import copy_file, filesystem_of
from penstock._connectors.files.staging import (
    FinishedPart,
    HeldAttempts,
    ReplacedSegments,
    not_written,
    run_of,
    segment_name,
    sink_name,
    token_of,
)
from penstock._files.job_options import reaching_stores_by, store_options
from penstock.errors import LostCommittableError, StagedFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock._api.connectors.sink import WriterInitContext
    from penstock._connectors.files.compaction import Compaction, FileCompactStrategy
    from penstock._connectors.files.policies import OutputFileConfig


@dataclass(frozen=True, slots=True)
class WaitingPart:
    """A finished part that waits for its bucket to be merged; an item of the coordinator's state."""

    part: FinishedPart
    #: The number of checkpoints that have passed since.
    checkpoints: int = 0


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """The parts of one bucket, to be merged now."""

    parts: tuple[FinishedPart, ...]


def folder_of_part(part: FinishedPart) -> str:
    """Return the folder of a part, which is its bucket."""
    return part.target.rpartition("/")[0]


class SegmentNames:
    """Chooses names of staged files, none of which is ever used again."""

    def __init__(self) -> None:
        self._writer_id, self._number = uuid.uuid4().hex, 0

    def next(self, folder: str, context: WriterInitContext, sink_uid: str) -> str:
        """Return the path of a new segment."""
        self._number += 1
        name = segment_name(
            self._writer_id,
            self._number,
            job_id=context.job_id,
            run_id=context.run_id,
            sink=sink_name(sink_uid),
            checkpoint_id=context.checkpoint_id,
            token=context.attempt_token,
        )
        return f"{folder}/{name}"


class CompactCoordinator(CheckpointFunction["CommittableWithLineage[Any]", Any]):
    """Collects parts by bucket, and requests their merging.

    Without a strategy it lets all parts go, those also that waited when compaction was on.

    Args:
        compaction: The sink's settings.
    """

    def __init__(self, compaction: Compaction) -> None:
        self._strategy = compaction.strategy

    def process_checkpoint(
        self,
        records: Sequence[CommittableWithLineage[Any]],
        state: list[WaitingPart],
        context: WriterInitContext,
        end_of_input: bool,
    ) -> Iterator[Any]:
        """Add the finished parts, request what is due, and hold the staged files of the others."""
        names = SegmentNames()
        waiting = [
            replace(one, part=_of_its_own(one.part, context, names), checkpoints=one.checkpoints + 1) for one in state
        ]
        for record in records:
            if isinstance(record.committable, FinishedPart):
                waiting.append(WaitingPart(record.committable))
            else:
                yield record
        by_bucket: dict[str, list[WaitingPart]] = {}
        for one in waiting:
            by_bucket.setdefault(folder_of_part(one.part), []).append(one)
        state.clear()
        for parts in by_bucket.values():
            if end_of_input or context.for_savepoint or _is_due(parts, self._strategy):
                merged = tuple(one.part for one in parts)
                requests = [merged] if self._strategy is not None else [(part,) for part in merged]
                yield from map(CompactRequest, requests)
            else:
                state += parts
        held = frozenset(token_of(segment) for one in state for segment in one.part.segments)
        if held:
            yield CommittableWithLineage(HeldAttempts(held), context.checkpoint_id, context.subtask_id)


def _is_due(parts: list[WaitingPart], strategy: FileCompactStrategy | None) -> bool:
    if strategy is None:
        return True
    size, checkpoints = strategy.size_threshold, strategy.num_checkpoints_before_compaction
    return (size is not None and sum(one.part.size for one in parts) >= size) or (
        # The checkpoint in which a part arrives is its first one.
        checkpoints is not None and max(one.checkpoints for one in parts) + 1 >= checkpoints
    )


def _of_its_own(part: FinishedPart, context: WriterInitContext, names: SegmentNames) -> FinishedPart:
    """Return a part without segments of other jobs, which may publish and remove theirs at any time (decision 20).

    Raises:
        StagedFileError: One of these segments is missing.
    """
    own = frozenset((*context.earlier_runs, context.run_id))
    if all(run_of(segment) in own for segment in part.segments):
        return part
    folder, segments = folder_of_part(part), list[str]()
    for segment in part.segments:
        if run_of(segment) in own:
            segments.append(segment)
            continue
        segments.append(names.next(folder, context, context.operator_uid))
        try:
            copy_file(segment, segments[-1])
        except FileNotFoundError:
            raise StagedFileError(segment) from None
        except OSError as error:
            raise not_written(segments[-1], error) from error
    return replace(part, segments=tuple(segments))


class Compactor(CheckpointFunction[Any, "CommittableWithLineage[Any]"]):
    """Merges the parts of requests, and passes all else on.

    Args:
        compaction: The sink's settings.
        file_config: The names of files.
    """

    def __init__(self, compaction: Compaction, file_config: OutputFileConfig) -> None:
        self._compaction, self._file_config = compaction, file_config

    def process_checkpoint(
        self, records: Sequence[Any], state: list[Any], context: WriterInitContext, end_of_input: bool
    ) -> Iterable[CommittableWithLineage[Any]]:
        """Return the committables of this checkpoint."""
        del state, end_of_input
        requests = [record.parts for record in records if isinstance(record, CompactRequest)]
        out = [record for record in records if not isinstance(record, CompactRequest)]
        names = SegmentNames()
        merging = [
            (parts, names.next(folder_of_part(parts[0]), context, context.operator_uid))
            for parts in requests
            if len(parts) > 1
        ]
        parts = [one[0] for one in requests if len(one) == 1]
        strategy = self._compaction.strategy
        options = store_options()  # another thread does not have them

        def merge(one: tuple[tuple[FinishedPart, ...], str]) -> FinishedPart:
            with reaching_stores_by(options):
                return self._merged(*one)

        if strategy is not None and strategy.num_compact_threads > 1 and len(merging) > 1:
            with ThreadPoolExecutor(strategy.num_compact_threads) as threads:
                parts += threads.map(merge, merging)
        else:
            parts += map(merge, merging)
        replaced = [segment for sources, _ in merging for part in sources for segment in part.segments]
        made: list[Any] = [*parts, ReplacedSegments(tuple(replaced))] if replaced else list(parts)
        return [*out, *(CommittableWithLineage(one, context.checkpoint_id, context.subtask_id) for one in made)]

    def _merged(self, parts: tuple[FinishedPart, ...], segment: str) -> FinishedPart:
        """Write one staged file with the records of several parts."""
        filesystem, compactor = filesystem_of(segment), self._compaction.compactor
        assert compactor is not None
        with ExitStack() as open_files:
            inputs = [_opened(part, open_files) for part in parts]
            try:
                output = filesystem.create(segment)
                open_files.callback(output.close)
                compactor.compact(inputs, output)
                size = output.tell()
                filesystem.finish(segment, output)
            except OSError as error:
                raise not_written(segment, error) from error
        config = self._file_config
        name = f"compacted-{config.part_prefix}-{uuid.uuid4().hex}{config.part_suffix}"
        return FinishedPart(f"{folder_of_part(parts[0])}/{name}", (segment,), size)


def _opened(part: FinishedPart, open_files: ExitStack) -> BinaryIO:
    """Open the staged bytes of a part.

    Raises:
        LostCommittableError: Some of them are gone.
    """
    streams: list[BinaryIO] = []
    found = 0
    for segment in part.segments:
        filesystem = filesystem_of(segment)
        try:
            found += filesystem.size_of(segment) or 0
            streams.append(open_files.enter_context(filesystem.open(segment)))
        except FileNotFoundError:
            reason = f"what was staged of it in {segment} is gone: something else deletes hidden files there"
            raise LostCommittableError(part.target, reason) from None
    if found != part.size:
        reason = f"of its {part.size} bytes {found} are staged in {', '.join(part.segments)}"
        raise LostCommittableError(part.target, f"{reason}, which something else has changed")
    return streams[0] if len(streams) == 1 else cast("BinaryIO", BufferedReader(_Joined(streams)))


class _Joined(RawIOBase):
    """Several files, one after the other."""

    def __init__(self, streams: list[BinaryIO]) -> None:
        self._streams = streams

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while self._streams:
            data = self._streams[0].read(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            del self._streams[0]
        return 0
