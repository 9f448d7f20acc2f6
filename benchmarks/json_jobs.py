"""JSON in files, beside programs that read and write texts and call ``json``: processor time of a record.

    python benchmarks/json_jobs.py [pairs]

Whole jobs run in this process without Spark: source, chain, checkpoints and sink of the real driver at parallelism 1.
A record has five fields. Each figure is a slope, the difference of two sizes by the difference of their records, so it
has no start-up in it. Ours and the program's own way run in turn; the ratio is taken within a pair, above 1 is faster,
and the table has medians. Jobs that read end in a map to one field and a sink that adds it up; jobs that write get
their records from numbers, and *only records* is the same job with that sink in place of a file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).resolve().parent / "programs")]

from jobs import seconds_in_process  # noqa: E402
from penstock_programs import Tally  # noqa: E402 - behind the path

from penstock.common import Configuration, Encoder, Types, WatermarkStrategy  # noqa: E402
from penstock.datastream import DataStream, StreamExecutionEnvironment  # noqa: E402
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat  # noqa: E402
from penstock.datastream.connectors.number_seq import NumberSequenceSource  # noqa: E402
from penstock.datastream.formats.json import JsonLinesEncoder, JsonLinesFormat  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Job = Callable[[StreamExecutionEnvironment, int, Path], object]

SMALL, LARGE = 20_000, 120_000
ROW = Types.ROW_NAMED(
    ["id", "name", "price", "ok", "tags"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.LIST(Types.STRING())],
)


def dict_of(number: int) -> dict[str, Any]:
    """Return the record of a number as a dict."""
    return {"id": number, "name": "name of it", "price": number / 8, "ok": number % 3 == 0, "tags": ["one", "two"]}


def fields_of(number: int) -> tuple[Any, ...]:
    """Return the record of a number as a tuple, of which a declared type makes a row."""
    return number, "name of it", number / 8, number % 3 == 0, ["one", "two"]


# ---------------------------------------------------------------------------------------------------------------- jobs


def _file(records: int) -> str:
    """Return a file with so many lines, made at its first use."""
    path = Path(tempfile.gettempdir(), f"penstock-json-{records}.jsonl")
    if not path.exists():
        path.write_text("".join(f"{json.dumps(dict_of(number))}\n" for number in range(records)))
    return str(path)


def _lines(env: StreamExecutionEnvironment, records: int, lines: Any) -> DataStream:
    source = FileSource.for_record_stream_format(lines, _file(records)).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")


def add_up(stream: DataStream, place: Path) -> None:
    """Let a stream of numbers end in the sink that adds them up."""
    stream.sink_to(Tally(str(place)))


def read_texts(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Read by hand."""
    texts = _lines(env, records, StreamFormat.text_line_format())
    add_up(texts.map(json.loads).map(lambda record: record["id"]), place)


def read_rows(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Read rows of a type."""
    add_up(_lines(env, records, JsonLinesFormat(type_info=ROW)).map(lambda row: row[0]), place)


def read_dicts(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Read dicts."""
    add_up(_lines(env, records, JsonLinesFormat()).map(lambda record: record["id"]), place)


def numbers(env: StreamExecutionEnvironment, records: int) -> DataStream:
    """Return the numbers of records."""
    source = NumberSequenceSource(0, records - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def _written(stream: DataStream, encoder: Encoder, place: Path) -> None:
    stream.sink_to(FileSink.for_row_format(str(place), encoder).build())


def write_texts(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Write by hand."""
    texts = numbers(env, records).map(dict_of).map(json.dumps)
    _written(texts, Encoder.simple_string_encoder(), place)


def only_dicts(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Make what `write_texts` writes."""
    add_up(numbers(env, records).map(dict_of).map(lambda record: record["id"]), place)


def write_rows(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Write rows of a type."""
    _written(numbers(env, records).map(fields_of, ROW), JsonLinesEncoder(ROW), place)


def only_rows(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Make what `write_rows` writes."""
    add_up(numbers(env, records).map(fields_of, ROW).map(lambda row: row[0]), place)


def write_dicts(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Write dicts."""
    _written(numbers(env, records).map(dict_of), JsonLinesEncoder(), place)


def texts_to_texts(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Read and write by hand."""
    texts = _lines(env, records, StreamFormat.text_line_format()).map(json.loads).map(json.dumps)
    _written(texts, Encoder.simple_string_encoder(), place)


def rows_to_rows(env: StreamExecutionEnvironment, records: int, place: Path) -> None:
    """Read and write rows of a type."""
    _written(_lines(env, records, JsonLinesFormat(type_info=ROW)), JsonLinesEncoder(ROW), place)


# ------------------------------------------------------------------------------------------------------------- figures


def seconds(job: Job, records: int) -> float:
    """Return the processor time of a job."""
    with tempfile.TemporaryDirectory() as place:
        env: Any = StreamExecutionEnvironment.get_execution_environment(Configuration()).set_parallelism(1)
        out = Path(place, "out")
        out.mkdir()
        job(env, records, out)
        return seconds_in_process(env, "json", 1, Path(place))


def slope_ns(job: Job) -> float:
    """Return the processor time of a record."""
    return (seconds(job, LARGE) - seconds(job, SMALL)) / (LARGE - SMALL) * 1e9


def compare(title: str, own: Job, ours: Job, pairs: int, floors: tuple[Job, Job] | None = None) -> None:
    """Print the medians of pairs in turn, and of what they take beyond two other jobs."""
    figures = [tuple(slope_ns(job) for job in (own, ours, *(floors or ()))) for _ in range(pairs)]
    middle = [median(column) for column in zip(*figures, strict=True)]
    line = f"{title}: {middle[0]:.0f} ns by json, {middle[1]:.0f} ns, ratio {median(a / b for a, b, *_ in figures):.2f}"
    if floors is not None:
        beyond = median((one - floor) / (two - other) for one, two, floor, other in figures)
        line += f"; only records {middle[2]:.0f} and {middle[3]:.0f} ns, ratio of what is beyond {beyond:.2f}"
    print(line, flush=True)


def main(pairs: int) -> None:
    """Print the figures."""
    compare("Lines read as rows", read_texts, read_rows, pairs)
    compare("Lines read as dicts", read_texts, read_dicts, pairs)
    compare("Rows written as lines", write_texts, write_rows, pairs, (only_dicts, only_rows))
    compare("Dicts written as lines", write_texts, write_dicts, pairs, (only_dicts, only_dicts))
    compare("Lines read and written again as rows", texts_to_texts, rows_to_rows, pairs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
