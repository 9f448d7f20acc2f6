"""Who reads the time of day: all else goes by the time that passes, so that a clock that is set changes no duration."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import pytest

from penstock._engine.protocol.clocks import Moment

SOURCES = Path(__file__).parents[2] / "src" / "penstock"
#: Where the time of day is read, and what for.
READERS = {
    "_connectors/kafka/topics.py": "how far the timestamps of records lie ahead of brokers' clocks",
    "_connectors/lake/delta_sink.py": "when a file was added, in the log of the table",
    "_connectors/datagen.py": "the due time of a split's next record, which is in snapshots",
    "_connectors/files/writer.py": "processing time: buckets, and the ages of parts that live on in snapshots",
    "_engine/processes/detached.py": "the name of a log",
    "_engine/protocol/clocks.py": "processing time, records, what people are shown, ages of files",
    "_engine/spark/archive_maker.py": "the ages of files",
    "_engine/storage/local_state.py": "when this machine began, beside the ages of files",
    "_engine/spark/preflight.py": "the clock of a host, which may have no Penstock, beside the driver's",
    "_engine/spark/class_data.py": "the age of a file",
    "_engine/rest/handlers/cluster.py": "the time zone, of which the dashboard has to know",
}
#: What reads it: attributes of the module `time`, and methods of the classes of `datetime`.
OF_TIME = {
    "time",
    "time_ns",
    "localtime",
    "gmtime",
    "ctime",
    "asctime",
    "strftime",
    "clock_gettime",
    "clock_gettime_ns",
}
OF_DATETIME = {"now", "utcnow", "today"}


def readings(path: Path) -> list[int]:
    """Return the lines in which a module reads the time of day."""
    lines: list[int] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(ast.Name("time"), name) if name in OF_TIME:
                lines.append(node.lineno)
            case ast.Attribute(ast.Name("datetime" | "date") | ast.Attribute(attr="datetime" | "date"), name):
                lines += [node.lineno] * (name in OF_DATETIME)
            case ast.ImportFrom(module="time"):
                lines.append(node.lineno)
            case ast.Import(names) if any(name.name == "time" and name.asname for name in names):
                lines.append(node.lineno)
            case _:
                pass
    return lines


def test_the_time_of_day_is_read_only_where_it_is_said_what_for() -> None:
    assert {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if readings(path)} == set(READERS)


@pytest.mark.parametrize(
    "line",
    [
        "import time\nx = time.time()",
        "import time\nclock = time.time_ns",
        "from time import time_ns",
        "import time as t",
        "import datetime\nx = datetime.datetime.now()",
        "from datetime import datetime\nx = datetime.now(UTC)",
        "from datetime import date\nx = date.today()",
    ],
)
def test_a_reading_in_any_spelling_is_found(tmp_path: Path, line: str) -> None:
    module = tmp_path / "module.py"
    module.write_text(line)
    assert readings(module)


def test_a_moment_stays_in_its_process() -> None:
    with pytest.raises(TypeError, match="now_ms"):
        pickle.dumps(Moment(1, 2))
    with pytest.raises(TypeError, match="now_ms"):
        copy.deepcopy(Moment(1, 2))


def test_this_moment_is_of_both_clocks() -> None:
    earlier, later = Moment.now(), Moment.now()
    assert later.since(earlier) >= 0
    assert earlier.now_ms > 10**12
