"""Writes ``docs/pyflink-compatibility.md``: what of PyFlink's DataStream API is there, and what is not, and why.

``python -m tests.docs.compatibility`` writes it; a test says when that is due. What exists is found by looking;
the reasons are those of the errors, ``src/penstock/absent_names.txt``.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.compat.api import surface

from penstock import _absent
from penstock.common.option_table import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "pyflink-compatibility.md"
RECORDED = json.loads((ROOT / "tests/compat/api/pyflink_api.json").read_text(encoding="utf-8"))
#: Here by name only, and what to use instead; `test_compatibility.py` tries each.
REFUSED = {
    "`StateTtlConfig` of a broadcast map or an operator list": "take out what is old; the state of a key expires",
    "`env.add_source`, `stream.add_sink`, `create_input` with another format than `AvroInputFormat`": (
        "they take Java objects: `from_source` and `sink_to` with a source or sink in Python"
    ),
}
#: Accepted, without effect; the log says so once. `test_compatibility.py` tries each.
WITHOUT_EFFECT = {
    "`env.add_jars`, `env.add_classpaths`, `pipeline.jars`, `pipeline.classpaths`": OPTIONS["pipeline.jars"].no_effect,
    "`set_buffer_timeout`": OPTIONS["execution.buffer-timeout.interval"].no_effect,
    "`set_state_backend`, `state.backend.type`": OPTIONS["state.backend.type"].no_effect,
    "`slot_sharing_group`, `register_slot_sharing_group` and the resources that they ask for": (
        "Spark's tasks are the slots, and every level of a job uses all of them in turn"
    ),
}
#: Accepted, with another effect than in Flink.
OTHERWISE = {
    "The timestamp of a record that a `KafkaSink` writes": (
        "one too far ahead of the clock for the topic (`message.timestamp.after.max.ms`, one hour in Kafka 4), such "
        "as that of a count window's result, is left out: the producer's clock counts. Flink sends it, and is refused"
    ),
    "A number beyond a declared type, such as 40,000 for `Types.SHORT()`": (
        "an error that names operator, value and field. PyFlink keeps the low bits: 40,000 wraps to -25,536"
    ),
    "A value that JSON or Avro would cut, such as 1.5 as an integer, or microseconds in a type of milliseconds": (
        "an error that names field and value ([JSON](connectors.md#json), [Avro](connectors.md#avro)). Flink writes "
        "what is left of it"
    ),
    "Types where PyFlink takes `DataTypes`": (
        "those of `Types`, which have no `DECIMAL(p, s)`: `Types.BIG_DEC()` holds every Decimal, and a schema of Arrow "
        "or Avro has precision and scale"
    ),
    "A list or a dict as key": (
        "`KeyEncodingError` names the key; make it a tuple, which cannot change. PyFlink compares such keys by their "
        "pickled bytes"
    ),
    "`execution.checkpointing.externalized-checkpoint-retention`, until it is set": (
        "`RETAIN_ON_CANCELLATION`: a job that fails or is cancelled can be resumed. Flink keeps no checkpoint then"
    ),
    "`isolation.level` of a `KafkaSource`": "`read_committed` by default. Flink's default is `read_uncommitted`",
    "Timers of processing time": "fire with the next epoch: at most one checkpoint interval late",
    "`async_invoke` of an async function": "may not return `None` or a text ([async functions](async.md))",
    "A function with union lists": "is created again for each epoch: keep `open()` light ([state](state.md))",
    "REST and Prometheus": "always ask for a token ([REST](rest.md#who-may-ask))",
    "`metrics.reporters`": "`prom` works; others do nothing, and the log names them",
}
HEADER = """\
# What of PyFlink is here

<!-- made by tests/docs/compatibility.py -->

A DataStream program of PyFlink {version} runs after its imports change from `pyflink` to `penstock`, if it uses what
is here; `penstock port` changes them and lists what is not. Of {total:,} public names (classes, methods, functions
and exports of `pyflink.common`, `pyflink.datastream` and `pyflink.metrics`) {present:,} are here and take the same
arguments. Of these, a few are [refused](#here-by-name-and-refused) when they are called, some have
[no effect](#accepted-without-effect), and some work [otherwise than in Flink](#otherwise-than-in-flink). Each of the
other {absent:,} raises an error where a program imports or uses it, on the driver, with the reason that stands here.

What a job may miss: the Table API and SQL; connectors for Pulsar, Kinesis, RabbitMQ, Cassandra and dynamic Kafka;
formats of a schema registry; ORC files; connectors in jars.
"""


def document() -> str:
    """Return the page."""
    items = surface.items(RECORDED)
    present = [path for path, item in items.items() if surface.problem_with("penstock", path, item) is None]
    numbers = {"total": len(items), "present": len(present), "absent": len(items) - len(present)}
    sections = (
        _by_module(items, set(present)),
        _absent_names("## Not here", _absent.public()),
        _absent_names("## Private names, and those of Flink 1", _absent.unlisted()),
        _refused(),
        _otherwise(),
        _without_effect(),
    )
    return "\n".join(
        [HEADER.format(version=RECORDED["version"], **numbers), *(line for one in sections for line in one)]
    )


def _by_module(items: dict[str, surface.Entry], present: set[str]) -> Iterator[str]:
    yield from ("## By module", "", "| In `penstock.` | Names | Of them here |", "| --- | --- | --- |")
    counts = Counter(path.partition(":")[0] for path in items)
    found = Counter(path.partition(":")[0] for path in present)
    for module, count in counts.items():
        yield f"| `{module}` | {count} | {'all' if found[module] == count else found[module] or 'none'} |"
    yield ""


def _absent_names(heading: str, table: dict[tuple[str, str], str]) -> Iterator[str]:
    yield from (heading, "", "| In `penstock.` | What | Why, and what to use |", "| --- | --- | --- |")
    rows: dict[tuple[str, str], list[str]] = {}
    for (module, name), reason in table.items():
        rows.setdefault((module, reason), []).append(name)
    for (module, reason), names in sorted(rows.items()):
        shown = "the whole module" if names == ["*"] else ", ".join(f"`{name}`" for name in names)
        yield f"| `{module}` | {shown} | {reason} |"
    yield ""


def _refused() -> Iterator[str]:
    yield from (
        "## Here by name, and refused",
        "",
        "A program that uses one of these gets an `UnsupportedOperationError`.",
    )
    yield from ("", "| What | In its place |", "| --- | --- |")
    yield from (f"| {what} | {instead} |" for what, instead in REFUSED.items())
    yield ""


def _otherwise() -> Iterator[str]:
    yield from ("## Otherwise than in Flink", "", "| What | How |", "| --- | --- |")
    yield from (f"| {what} | {how} |" for what, how in OTHERWISE.items())
    yield ""


def _without_effect() -> Iterator[str]:
    yield from ("## Accepted, without effect", "", "The log says so once.", "", "| What | Why |", "| --- | --- |")
    yield from (f"| {what} | {why} |" for what, why in WITHOUT_EFFECT.items())
    yield ""


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
