"""The program of a random job: its sources, its operators one by one, its sinks, and what these hold in the end."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tests.chaos.jobs import TYPED_KEYS
from tests.chaos.operators import BUILD, KEYED, ODD, TWO_INPUTS, UNTIMED, at_the_end, in_order
from tests.kit.stories import EndlessSource
from tests.lifecycle.sink import FolderSink
from tests.unit.driver.life.post_commit_jobs import Answers, ToldSink, check_told

from penstock.common import Duration, Encoder, Types, WatermarkStrategy
from penstock.datastream.connectors.base import (
    FunctionSource,
    InputStatus,
    Sink,
    SinkWriter,
    SourceReader,
    SplitEnumerator,
)
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from penstock.testing.sources import ListSource, ListSplit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.jobs import Job, Operator, Output, Source
    from tests.kit.stories import Sheet

    from penstock.datastream import DataStream

#: The types of keys.
TYPES = dict(
    zip(TYPED_KEYS, (Types.LONG(), Types.BOOLEAN(), Types.STRING(), Types.DOUBLE(), Types.BIG_DEC()), strict=True)
)


# --------------------------------------------------------------------------------------------------------- the sources


class Timely(ListSource):
    """Lists that are all read at once, the next stamp first: watermarks rise, and nothing is late."""

    def create_enumerator(self, enum_context: Any) -> Any:
        return _Dealer(enum_context, [ListSplit(number) for number in range(len(self._lists))])

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> Any:
        return _Dealer(enum_context, checkpoint)

    def create_reader(self, reader_context: Any) -> Any:
        return _TimelyReader(self._lists)


class _Dealer(SplitEnumerator[Any, Any]):
    """Gives each reader its share of the splits as soon as it is there."""

    def __init__(self, context: Any, splits: list[ListSplit]) -> None:
        self.context, self.waiting = context, list(splits)

    def start(self) -> None: ...

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None: ...

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self.waiting += splits

    def add_reader(self, subtask_id: int) -> None:
        readers = self.context.current_parallelism
        mine = [split for split in self.waiting if split.number % readers == subtask_id]
        self.waiting = [split for split in self.waiting if split not in mine]
        for split in mine:
            self.context.assign_split(split, subtask_id)
        self.context.signal_no_more_splits(subtask_id)

    def snapshot_state(self, checkpoint_id: int) -> list[ListSplit]:
        return list(self.waiting)


class _TimelyReader(SourceReader[Any, Any]):
    def __init__(self, lists: list[list[Any]]) -> None:
        self.lists, self.splits = lists, list[ListSplit]()
        self.paused: set[str] = set()
        self.is_complete = False

    def add_splits(self, splits: list[ListSplit]) -> None:
        self.splits += splits

    def notify_no_more_splits(self) -> None:
        self.is_complete = True

    def poll_next(self, output: Any) -> InputStatus:
        for split in [split for split in self.splits if split.position == len(self.lists[split.number])]:
            self.splits.remove(split)
            output.release_output_for_split(split.split_id())
        open_ones = [split for split in self.splits if split.split_id() not in self.paused]
        if not open_ones:
            is_over = self.is_complete and not self.splits
            return InputStatus.END_OF_INPUT if is_over else InputStatus.NOTHING_AVAILABLE
        for split in self.splits:  # those that wait hold the watermark back
            output.create_output_for_split(split.split_id())
        split = min(open_ones, key=lambda one: (self.lists[one.number][one.position][1], one.number))
        output.create_output_for_split(split.split_id()).collect(self.lists[split.number][split.position])
        self.splits[self.splits.index(split)] = replace(split, position=split.position + 1)
        return InputStatus.MORE_AVAILABLE

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        self.paused = (self.paused | set(splits_to_pause)) - set(splits_to_resume)

    def snapshot_state(self, checkpoint_id: int) -> list[ListSplit]:
        return list(self.splits)


@dataclass
class ReadLists:
    """The function of a FunctionSource."""

    lists: tuple[Any, ...]

    def __call__(self, split: str, offset: Any) -> Any:
        records = self.lists[int(split)]
        return ((records[position], position + 1) for position in range(offset or 0, len(records)))


@dataclass
class Looked:
    """Makes a record of the line that has its number."""

    records: dict[int, Any]

    def __call__(self, line: str) -> Any:
        return self.records[int(line)]


def add_source(sheet: Sheet, place: Path, number: int, source: Source) -> DataStream[Any]:
    times = in_order() if source.kind in {"timely", "many splits"} else at_the_end()
    if source.aligned:
        times = times.with_watermark_alignment("together", Duration.of_millis(10))
    match source.kind:
        case "function":
            function = FunctionSource(ReadLists(source.splits), [str(split) for split in range(len(source.splits))])
            return sheet.env.from_source(function, times, f"source {number}")
        case "file":
            folder = place / f"in-{number}"
            folder.mkdir(exist_ok=True)
            for name, split in enumerate(source.splits):
                path = folder / f"{name}.txt"
                if not path.exists():  # a changed file is an error
                    path.write_text("".join(f"{record[2]}\n" for record in split))
            lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
            files = lines.process_static_file_set().build()  # of lines, which have no times yet
            return sheet.env.from_source(files, WatermarkStrategy.no_watermarks(), f"source {number}")
        case _:
            kind = {"list": ListSource, "endless": EndlessSource}.get(source.kind, Timely)
            lists = kind(*source.splits, happened_in=str(place / f"events-{number}"))
            return sheet.env.from_source(lists, times, f"source {number}")


# ----------------------------------------------------------------------------------------------------------- the sinks


class Upserts(Sink[Any]):
    """Writes each record to a file of its own, as soon as it comes: at least once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context: Any) -> UpsertWriter:
        return UpsertWriter(self.folder)


class UpsertWriter(SinkWriter[Any]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, element: Any, context: Any) -> None:
        (self.folder / f"{crc32(repr(element).encode())}").write_bytes(pickle.dumps(element))

    def flush(self, end_of_input: bool) -> None: ...


def add_output(stream: DataStream[Any], place: Path, number: int, output: Output) -> Any:
    folder = place / f"out-{number}"
    match output.kind:
        case "files":
            encoder = Encoder.simple_string_encoder()
            policy = RollingPolicy.default_rolling_policy()
            builder = FileSink.for_row_format(str(folder), encoder).with_bucket_assigner(
                BucketAssigner.base_path_bucket_assigner()
            )
            policy = RollingPolicy.on_checkpoint_rolling_policy() if output.rolls else policy
            texts = stream.map(repr, Types.STRING()).uid(f"texts-{number}")  # it may have finished, which is state, too
            return texts.sink_to(builder.with_rolling_policy(policy).build())
        case "folder":
            return stream.sink_to(FolderSink(folder))
        case "told":
            texts = stream.map(repr, Types.STRING()).uid(f"texts-{number}")  # its committer keeps records in sets
            return texts.sink_to(ToldSink(folder, FolderSink(place / f"told-{number}"), Answers()))
        case _:
            return stream.sink_to(Upserts(folder))


def seen(place: Path, number: int, output: Output) -> Counter[str]:
    """Return how often each record is in a sink, as a text that tells its value and type."""
    folder = place / f"out-{number}"
    if output.kind == "files":
        files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")]
        return Counter(line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    if output.kind == "upsert":
        return Counter(repr(pickle.loads(file.read_bytes())) for file in folder.glob("*"))
    if output.kind == "told" and folder.exists():
        check_told(folder, place / f"told-{number}")
    return Counter(record if output.kind == "told" else repr(record) for record in published_records(folder))


def published_records(folder: Path) -> list[Any]:
    return [record for file in sorted(folder.glob("*")) for record in pickle.loads(file.read_bytes())]


# ----------------------------------------------------------------------------------------------------------- a program


@dataclass
class Program:
    """Writes a job on a sheet.

    Args:
        job: The job.
        sizes: The parallelism of each source, operator and sink.
        place: The folder of its input and output.
        changed: The operator before which there is one more, without state.
        tees: Whether a sink has what each source has read.
    """

    job: Job
    sizes: tuple[int, ...]
    place: Path
    changed: int | None
    tees: bool

    def __call__(self, sheet: Sheet) -> None:
        self._left = iter(self.sizes)
        if self.job.batch:
            sheet.env._configuration.set_string("execution.runtime-mode", "BATCH")
        streams: list[Any] = []
        for number, source in enumerate(self.job.sources):
            stream = self._named(add_source(sheet, self.place, number, source), f"source-{number}")
            if source.kind == "file":
                stream = self._timed(stream.map(Looked({record[2]: record for record in source.records})))
            streams.append(stream)
        for number, stream in enumerate(streams if self.tees else ()):
            stream.sink_to(FolderSink(self.place / f"read-{number}")).uid(f"read-{number}").set_parallelism(1)
        for number, operator in enumerate(self.job.operators):
            made = self._add(number, operator, [streams[one] for one in operator.inputs])
            streams += [made, made.get_side_output(ODD)] if operator.kind == "side output" else [made]
        for number, output in enumerate(self.job.outputs):
            self._named(add_output(streams[output.stream], self.place, number, output), f"sink-{number}")

    def _add(self, number: int, operator: Operator, taken: list[Any]) -> Any:
        if self.changed == number:
            taken[0] = self._known(taken[0].map(same).name("extra"), "extra")
        if operator.edge != "forward" and operator.kind not in KEYED | TWO_INPUTS:
            taken[0] = getattr(taken[0], operator.edge)()
        made = BUILD[operator.kind](*taken)
        made = self._named(made.map(same) if operator.kind == "union" else made, f"{operator.kind}-{number}")
        if operator.kind in UNTIMED:
            return self._timed(made)
        if self.job.declares(operator):
            return self._known(made.map(same, DECLARED[self.job.keys]), f"type of {self._last}")
        return made

    def _named(self, stream: Any, uid: str) -> Any:
        self._last = uid
        stream.set_parallelism(next(self._left))
        return self._known(stream, uid)

    def _known(self, stream: Any, uid: str) -> Any:
        return stream.uid(uid) if self.job.uids else stream

    def _timed(self, stream: Any) -> Any:
        """Give the records of a stream their stamps."""
        stream = stream.assign_timestamps_and_watermarks(at_the_end())
        return self._known(stream, f"times of {self._last}")


def same(record: Any) -> Any:
    return record


DECLARED = {
    kind: Types.TUPLE([declared, Types.LONG(), Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
    for kind, declared in TYPES.items()
}
