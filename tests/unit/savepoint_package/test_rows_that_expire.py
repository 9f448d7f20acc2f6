"""Savepoints with state that expires: read, and written again with the times of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.savepoints import jobs
from tests.unit.savepoints.jobs import environment, run

from penstock._engine.savepoints.counting import KeyedStateCounter
from penstock._engine.savepoints.located import locate
from penstock._engine.savepoints.reading import opened_store
from penstock.common import Time, WatermarkStrategy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = 20_001


class Keeps(KeyedProcessFunction):
    """Keeps all numbers of a key for a day."""

    def open(self, runtime_context: Any) -> None:
        descriptors = [ValueStateDescriptor("last"), ListStateDescriptor("all"), MapStateDescriptor("each")]
        for descriptor in descriptors:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.last = runtime_context.get_state(descriptors[0])
        self.all = runtime_context.get_list_state(descriptors[1])
        self.each = runtime_context.get_map_state(descriptors[2])

    def process_element(self, value: int, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(10**9)
        self.last.update(value)
        self.all.add(value)
        self.each.put(value, -value)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        jobs.SEEN.append((ctx.get_current_key(), len(list(self.all.get())), sum(1 for _ in self.each.items())))


def keeping(env: Any) -> None:
    strategy = WatermarkStrategy.no_watermarks()
    source = env.from_source(NumberSequenceSource(0, NUMBERS - 1), strategy, "numbers").uid("numbers")
    source.key_by(lambda value: value % 3).process(Keeps()).uid("keeps").print()


def rows(path: str) -> dict[Any, Any]:
    """Return the stamps of all rows, and since when the states expire."""
    located = locate(path, {})
    operator = located.snapshot.operators["keeps"]
    found: dict[Any, Any] = {}
    for subtask in range(operator.parallelism):
        with opened_store(located, operator, subtask) as store:
            for table in store.tables:
                found[table.name, subtask] = table.life.since
                for namespace, pane in table.panes.items():
                    found |= {(table.name, namespace, row.address): row.stamp for row in pane.full_rows()}
    return found


def test_rows_keep_their_times_and_lists_are_whole(tmp_path: Path) -> None:
    env = environment(2, checkpoints=str(tmp_path / "checkpoints"))
    keeping(env)
    path = run(env, tmp_path, stop_in=2)[1]
    assert path is not None
    savepoint = Savepoint.open(path)
    held = {entry.key: entry.value for entry in savepoint.keyed_state("keeps", "all")}
    assert {key: sorted(values) for key, values in held.items()} == {
        key: sorted(entry.map_key for entry in savepoint.keyed_state("keeps", "each") if entry.key == key)
        for key in range(3)
    }
    assert max(map(len, held.values())) > 200
    located = locate(path, {})
    counted = KeyedStateCounter(located, located.snapshot.operators["keeps"]).count(exactly=True)
    assert {(state.name, state.keys, state.windows) for state in counted} == {
        (n, 3, 0) for n in ("last", "all", "each", "event-time")
    }
    before = rows(path)
    assert None not in before.values()
    writer = SavepointWriter.from_existing(path).transform_keyed_state("keeps", "last", lambda key, value: value + 1)
    again = writer.write(str(tmp_path / "again"))
    assert rows(again) == before
    writer = SavepointWriter.from_existing(path).transform_keyed_state("keeps", "all", lambda key, all_: all_[:200])
    shorter = writer.write(str(tmp_path / "shorter"))
    assert {entry.key: entry.value for entry in Savepoint.open(shorter).keyed_state("keeps", "all")} == {
        key: values[:200] for key, values in held.items()
    }
    env = environment(3, recover=shorter, checkpoints=str(tmp_path / "after"))
    keeping(env)
    run(env, tmp_path)
    last = {key: (count, entries) for key, count, entries in jobs.SEEN}
    cut = {key: len(values) - len(values[:200]) for key, values in held.items()}
    assert last == {key: (NUMBERS // 3 - cut[key], NUMBERS // 3) for key in range(3)}
