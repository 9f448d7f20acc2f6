"""Descriptors, TTL, windows, tags, groups: the values that programs build."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, Duration, Time, Types
from penstock.datastream import (
    AggregateFunction,
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    MemorySize,
    OutputTag,
    ReduceFunction,
    SlotSharingGroup,
    TimeDomain,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import CountWindow, GlobalWindow, TimeWindow, TumblingEventTimeWindows
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

ANY = Types.PICKLED_BYTE_ARRAY()


class Larger(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)


# -------------------------------------------------------------------------------------------------------------- state


@pytest.mark.parametrize(
    ("descriptor", "type_info"),
    [
        (ValueStateDescriptor("s"), ANY),
        (ValueStateDescriptor("s", value_type_info=Types.INT()), Types.INT()),
        (ListStateDescriptor("s"), Types.LIST(ANY)),
        (ListStateDescriptor("s", elem_type_info=Types.INT()), Types.LIST(Types.INT())),
        (MapStateDescriptor("s"), Types.MAP(ANY, ANY)),
        (MapStateDescriptor("s", key_type_info=Types.INT(), value_type_info=ANY), Types.MAP(Types.INT(), ANY)),
        (ReducingStateDescriptor("s", max, type_info=Types.INT()), Types.INT()),
    ],
)
def test_descriptors_know_name_and_type(descriptor: Any, type_info: object) -> None:
    assert (descriptor.get_name(), descriptor.type_info, descriptor.ttl_config) == ("s", type_info, None)


def test_a_reducing_state_takes_an_object_or_a_callable() -> None:
    for function in (Larger(), max):
        assert ReducingStateDescriptor("s", function).get_reduce_function().reduce(1, 2) == 2
    with pytest.raises(TypeError, match="ReduceFunction or a callable, not 5"):
        ReducingStateDescriptor("s", 5)  # type: ignore[arg-type] - what is tested


def test_an_aggregating_state_takes_an_object() -> None:
    class Count(AggregateFunction):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: Any, accumulator: int) -> int:
            return accumulator + 1

        def get_result(self, accumulator: int) -> int:
            return accumulator

        def merge(self, acc_a: int, acc_b: int) -> int:
            return acc_a + acc_b

    function = Count()
    assert AggregatingStateDescriptor("s", function, Types.INT()).get_agg_function() is function
    with pytest.raises(TypeError, match="AggregateFunction"):
        AggregatingStateDescriptor("s", max, Types.INT())  # type: ignore[arg-type] - what is tested


def test_ttl_defaults() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(5)).build()
    assert config.get_ttl() == Time.seconds(5)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.is_enabled()
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    incremental, compaction = (
        cleanup.get_incremental_cleanup_strategy(),
        cleanup.get_rocksdb_compact_filter_cleanup_strategy(),
    )
    assert incremental is not None
    assert compaction is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    assert compaction.get_query_time_after_num_entries() == 1000


def test_ttl_builder_sets_everything() -> None:
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_ttl(Time.minutes(1))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .cleanup_in_rocksdb_compact_filter(9, Duration.of_hours(1))
        .disable_cleanup_in_background()
        .build()
    )
    assert config.get_ttl() == Time.minutes(1)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    cleanup = config.get_cleanup_strategies()
    assert cleanup.in_full_snapshot()
    assert not cleanup.is_cleanup_in_background()
    incremental, compaction = (
        cleanup.get_incremental_cleanup_strategy(),
        cleanup.get_rocksdb_compact_filter_cleanup_strategy(),
    )
    assert incremental is not None
    assert compaction is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (7, True)
    assert compaction.get_periodic_compaction_time() == Duration.of_hours(1)


def test_without_background_there_is_only_what_was_chosen() -> None:
    cleanup = (
        StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background().build().get_cleanup_strategies()
    )
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_disabled_ttl_is_not_enabled() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(StateTtlConfig.UpdateType.Disabled)
    assert not builder.build().is_enabled()


def test_descriptors_and_their_ttl_travel() -> None:
    descriptor = ValueStateDescriptor("s", Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(5)).cleanup_incrementally(1, False).build())
    there = pickle.loads(pickle.dumps(descriptor))
    assert there.ttl_config.get_ttl() == Time.seconds(5)
    assert there.ttl_config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite


# ------------------------------------------------------------------------------------------------------------ windows


@pytest.mark.parametrize(
    ("timestamp", "offset", "size", "start"),
    [(0, 0, 5000, 0), (4999, 0, 5000, 0), (5000, 0, 5000, 5000), (-1, 0, 5000, -5000), (3, 1000, 5000, -4000)],
)
def test_start_of_a_window(timestamp: int, offset: int, size: int, start: int) -> None:
    assert TimeWindow.get_window_start_with_offset(timestamp, offset, size) == start
    [window] = TumblingEventTimeWindows(size, offset).assign_windows(None, timestamp, None)  # type: ignore[arg-type]
    assert window == TimeWindow(start, start + size)


def test_windows_are_values() -> None:
    assert repr(TimeWindow(0, 10)) == "TimeWindow(start=0, end=10)"
    assert sorted([TimeWindow(5, 7), TimeWindow(0, 9), TimeWindow(0, 3)]) == [
        TimeWindow(0, 3),
        TimeWindow(0, 9),
        TimeWindow(5, 7),
    ]
    assert (
        len({TimeWindow(0, 3), TimeWindow(0, 3), CountWindow(1), CountWindow(1), GlobalWindow(), GlobalWindow()}) == 3
    )
    assert repr(CountWindow(4)) == "CountWindow(id=4)"
    assert GlobalWindow.get() == GlobalWindow()
    assert pickle.loads(pickle.dumps([TimeWindow(0, 3), GlobalWindow.get()])) == [TimeWindow(0, 3), GlobalWindow()]
    assert [window.max_timestamp() for window in (TimeWindow(0, 3), CountWindow(1), GlobalWindow())] == [
        2,
        2**63 - 1,
        2**63 - 1,
    ]


@pytest.mark.parametrize(
    ("one", "other", "intersects", "cover"),
    [
        ((0, 5), (5, 9), True, (0, 9)),
        ((0, 5), (6, 9), False, (0, 9)),
        ((2, 9), (0, 3), True, (0, 9)),
        ((0, 9), (2, 3), True, (0, 9)),
    ],
)
def test_two_windows(one: Any, other: Any, intersects: bool, cover: Any) -> None:
    assert TimeWindow(*one).intersects(TimeWindow(*other)) is intersects
    assert TimeWindow(*one).cover(TimeWindow(*other)) == TimeWindow(*cover)


@pytest.mark.parametrize(("size", "offset"), [(0, 0), (1000, 1000), (1000, -1000)])
def test_an_offset_is_smaller_than_the_size(size: int, offset: int) -> None:
    with pytest.raises(ValueError, match=f"{offset} of {size} ms"):
        TumblingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(offset))


def test_a_record_without_a_timestamp_has_no_window() -> None:
    with pytest.raises(ValueError, match="assign_timestamps_and_watermarks"):
        TumblingEventTimeWindows(1000, 0).assign_windows(None, -(2**63), None)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- others


def test_output_tags() -> None:
    assert OutputTag("a", Types.INT()) == OutputTag("a") != OutputTag("b")
    assert OutputTag("a", [Types.INT()]).type_info == Types.ROW([Types.INT()])
    assert OutputTag("a").type_info == ANY
    assert pickle.loads(pickle.dumps(OutputTag("a"))) == OutputTag("a")
    with pytest.raises(ValueError, match="not empty"):
        OutputTag("")
    with pytest.raises(TypeError, match="type_info of an OutputTag"):
        OutputTag("a", 5)  # type: ignore[arg-type] - what is tested


def test_time_domains_print_as_in_pyflink() -> None:
    assert [str(domain) for domain in TimeDomain] == ["TimeDomain.EVENT_TIME", "TimeDomain.PROCESSING_TIME"]


def test_memory_sizes() -> None:
    size = MemorySize.of_mebi_bytes(3 << 20)
    assert (size.get_bytes(), size.get_kibi_bytes(), size.get_mebi_bytes()) == (3 << 40, 3 << 30, 3 << 20)
    assert (size.get_gibi_bytes(), size.get_tebi_bytes(), str(size)) == (3 << 10, 3, f"{3 << 40} bytes")
    assert MemorySize(5) < MemorySize(6)


def test_slot_sharing_groups() -> None:
    group = (
        SlotSharingGroup.builder("g")
        .set_cpu_cores(1.5)
        .set_task_heap_memory_mb(1)
        .set_task_off_heap_memory_mb(2)
        .set_managed_memory_mb(3)
        .set_external_resource("gpu", 1.0)
        .build()
    )
    assert (group.get_name(), group.get_cpu_cores()) == ("g", 1.5)
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(1)
    assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(2)
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(3)
    assert group.get_external_resources() == {"gpu": 1.0}
    assert len({group, SlotSharingGroup.builder("g").build()}) == 2


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda group: group.set_cpu_cores(0.0), "cores .* 'g' must be positive"),
        (lambda group: group.set_task_heap_memory(MemorySize(0)), "heap memory .* 'g' must be positive"),
        (lambda group: group.set_cpu_cores(1.0).build(), "'g' .* both set_cpu_cores"),
        (lambda group: group.set_task_heap_memory_mb(1).build(), "'g' .* both set_cpu_cores"),
        (lambda group: group.set_managed_memory_mb(1).build(), "'g' .* both set_cpu_cores"),
        (lambda group: group.set_external_resource("gpu", 1.0).build(), "'g' .* both set_cpu_cores"),
    ],
)
def test_a_slot_sharing_group_that_no_flink_could_have_is_refused(build: Callable[[Any], object], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        build(SlotSharingGroup.builder("g"))


@pytest.mark.parametrize(
    ("name", "value", "key", "text"),
    [
        ("checkpoint_interval", 1000, "execution.checkpointing.interval", "1 s"),
        ("checkpoint_timeout", 20, "execution.checkpointing.timeout", "20 ms"),
        ("min_pause_between_checkpoints", 0, "execution.checkpointing.min-pause", "0 ms"),
        ("max_concurrent_checkpoints", 2, "execution.checkpointing.max-concurrent-checkpoints", "2"),
        ("tolerable_checkpoint_failure_number", 3, "execution.checkpointing.tolerable-failed-checkpoints", "3"),
        (
            "aligned_checkpoint_timeout",
            Duration.of_millis(7),
            "execution.checkpointing.aligned-checkpoint-timeout",
            "7 ms",
        ),
        ("alignment_timeout", Duration.of_millis(7), "execution.checkpointing.aligned-checkpoint-timeout", "7 ms"),
        ("checkpointing_mode", CheckpointingMode.AT_LEAST_ONCE, "execution.checkpointing.mode", "AT_LEAST_ONCE"),
        (
            "externalized_checkpoint_retention",
            ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
            "execution.checkpointing.externalized-checkpoint-retention",
            "DELETE_ON_CANCELLATION",
        ),
    ],
)
def test_checkpoint_config_is_a_view_of_the_keys(name: str, value: object, key: str, text: str) -> None:
    configuration = Configuration()
    config = CheckpointConfig(configuration)
    assert getattr(config, f"set_{name}")(value) is config
    assert configuration.to_dict() == {key: text}
    assert getattr(config, f"get_{name}")() == value


def test_checkpoint_config_flags() -> None:
    config = CheckpointConfig()
    assert not config.is_checkpointing_enabled()
    assert config.set_checkpoint_interval(10).is_checkpointing_enabled()
    assert config.is_fail_on_checkpointing_errors()
    assert not config.set_fail_on_checkpointing_errors(False).is_fail_on_checkpointing_errors()
    assert config.enable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert config.set_force_unaligned_checkpoints().is_force_unaligned_checkpoints()
    assert config.is_externalized_checkpoints_enabled()
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
    assert not config.is_externalized_checkpoints_enabled()


def test_checkpoint_config_names_the_key_of_a_wrong_value() -> None:
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.interval"):
        CheckpointConfig().set_checkpoint_interval(9)
