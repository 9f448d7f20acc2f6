"""Types, exchanges, keys, side outputs and what else a stream has."""

import datetime
import decimal

from penstock.common import Row, RowKind, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import (
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
)
from penstock.datastream.output_tag import OutputTag

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
PAIRS = [("a", 3), ("b", 7), ("a", 5), ("a", 1), ("b", 2), ("c", 9)]
PERSON = Types.ROW_NAMED(["name", "age", "town"], [Types.STRING(), Types.INT(), Types.STRING()])
PEOPLE = [Row("ada", 36, "london"), Row("alan", 41, "london"), Row("grace", 85, "new york")]


def rows_by_name(env):
    people = env.from_collection(PEOPLE, PERSON)
    older = people.map(lambda p: Row(name=p.name.title(), age=p["age"] + 1, town=p[2]), PERSON)
    return older.map(lambda p: (p.name, p.age, p.town, p.as_dict(), len(p), str(p)))


def rows_without_names(env):
    kind = Types.ROW([Types.STRING(), Types.INT()])
    return env.from_collection(PAIRS, kind).map(lambda r: Row(r[0] * 2, r[1] + 1), kind)


def rows_with_kinds(env):
    class Kind(MapFunction):
        def map(self, value):
            row = Row(*value)
            row.set_row_kind(RowKind.DELETE if value[1] > 5 else RowKind.UPDATE_AFTER)
            return row

    rows = env.from_collection(PAIRS, PAIR).map(Kind(), Types.ROW([Types.STRING(), Types.INT()]))
    return rows.map(lambda r: (r[0], str(r.get_row_kind())))


def fields_of_rows(env):
    by_town = env.from_collection(PEOPLE, PERSON).key_by(lambda p: p.town, Types.STRING())
    oldest = by_town.max_by("age").map(lambda p: ("max_by", p.name, p.age))
    total = by_town.sum("age").map(lambda p: ("sum", p.town, p.age))
    return oldest.union(total)


def types_of_values(env):
    kinds = Types.ROW(
        [
            Types.BOOLEAN(),
            Types.LONG(),
            Types.DOUBLE(),
            Types.STRING(),
            Types.BIG_DEC(),
            Types.SQL_DATE(),
            Types.SQL_TIME(),
            Types.SQL_TIMESTAMP(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.BASIC_ARRAY(Types.STRING()),
            Types.LIST(Types.INT()),
            Types.MAP(Types.STRING(), Types.INT()),
            Types.TUPLE([Types.INT(), Types.STRING()]),
        ]
    )
    row = Row(
        True,
        2**40,
        1.5,
        "text",
        decimal.Decimal("1.25"),
        datetime.date(2026, 1, 2),
        datetime.time(3, 4, 5),
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6000),
        b"bytes",
        ["x", "y"],
        [1, 2],
        {"k": 1},
        (1, "one"),
    )
    empty = Row(*[None] * 13)
    return env.from_collection([row, empty], kinds).map(lambda r: [(type(v).__name__, v) for v in r])


def projected(env):
    kind = Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()])
    return env.from_collection([("a", 1, 0.5), ("b", 2, 1.5)], kind).project(2, 0)


def key_selectors(env):
    class First(KeySelector):
        def get_key(self, value):
            return value[0], value[1] % 2

    class Key(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.get_current_key(), value[1]

    return env.from_collection(PAIRS, PAIR).key_by(First(), Types.TUPLE([Types.STRING(), Types.INT()])).process(Key())


def keyed_twice(env):
    class Larger(ReduceFunction):
        def reduce(self, value1, value2):
            return value1 if value1[1] >= value2[1] else value2

    by_name = env.from_collection(PAIRS, PAIR).key_by(lambda p: p[0], Types.STRING())
    largest = by_name.reduce(Larger())
    return largest.key_by(lambda p: p[1] > 4, Types.BOOLEAN()).map(lambda p: (p[1] > 4, p))


def custom_partitions(env):
    class Rest(Partitioner):
        def partition(self, key, num_partitions):
            return key % num_partitions

    class Where(MapFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()
            self.parallelism = runtime_context.get_number_of_parallel_subtasks()

        def map(self, value):
            return value, self.index, self.parallelism

    numbers = env.from_collection(list(range(8)), Types.INT())
    return numbers.partition_custom(Rest(), lambda n: n).map(Where()).set_parallelism(3)


def exchanges(env):
    numbers = env.from_collection([1, 2, 3], Types.INT())

    def told(stream, name, parallelism):
        return stream.map(lambda n: (name, n)).set_parallelism(parallelism)

    return told(numbers.broadcast(), "broadcast", 3).union(
        told(numbers.rebalance(), "rebalance", 2),
        told(numbers.rescale(), "rescale", 2),
        told(numbers.shuffle(), "shuffle", 2),
        told(numbers.forward(), "forward", 1),
    )


def united_with_itself(env):
    numbers = env.from_collection([1, 2], Types.INT())
    doubled = numbers.map(lambda n: n * 10, Types.INT())
    return numbers.union(doubled).union(numbers.map(lambda n: -n, Types.INT()))


def side_outputs(env):
    small, words = OutputTag("small", Types.INT()), OutputTag("words", Types.STRING())

    class Sorted(ProcessFunction):
        def process_element(self, value, ctx):
            if value < 3:
                yield small, value
            yield words, f"n{value}"
            yield value

    class Odd(KeyedProcessFunction):
        def process_element(self, value, ctx):
            if ctx.get_current_key():
                yield small, value
            else:
                yield value

    numbers = env.from_collection(list(range(5)), Types.INT()).process(Sorted(), Types.INT())
    odd = numbers.key_by(lambda n: n % 2, Types.INT()).process(Odd(), Types.INT())
    return (
        odd.map(lambda n: ("even", n))
        .union(odd.get_side_output(small).map(lambda n: ("odd", n)))
        .union(numbers.get_side_output(small).map(lambda n: ("small", n)))
        .union(numbers.get_side_output(words).map(lambda w: ("word", w)))
    )


def settings_of_operators(env):
    numbers = env.from_collection([1, 2, 3], Types.INT())
    doubled = numbers.map(lambda n: n * 2, Types.INT()).name("doubled").uid("doubled").disable_chaining()
    kept = doubled.filter(lambda n: n > 2).start_new_chain().set_parallelism(1).set_max_parallelism(8)
    return kept.map(lambda n: ("kept", n)).slot_sharing_group("one").set_description("what is kept")


def timestamps(env):
    class Times(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value[1] * 1_000

    class Seen(ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp()

    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Times())
    stream = env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(strategy)
    kept = stream.filter(lambda p: p[1] > 2).map(lambda p: p[0], Types.STRING()).process(Seen())
    return kept.union(stream.key_by(lambda p: p[0], Types.STRING()).reduce(lambda a, b: b).process(Seen()).filter(lambda s: s[0][0] == "c"))


def sequences(env):
    numbers = env.from_source(NumberSequenceSource(1, 20), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    return numbers.filter(lambda n: n % 5 == 0).flat_map(lambda n: [n, -n] if n != 10 else [], Types.LONG())


PROGRAMS = [
    rows_by_name,
    rows_without_names,
    rows_with_kinds,
    fields_of_rows,
    types_of_values,
    projected,
    key_selectors,
    keyed_twice,
    custom_partitions,
    exchanges,
    united_with_itself,
    side_outputs,
    settings_of_operators,
    timestamps,
    sequences,
]
