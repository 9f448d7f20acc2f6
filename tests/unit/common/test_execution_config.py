from __future__ import annotations

from typing import Any

import pytest

from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.errors import ConfigurationError, UnsupportedOperationError


@pytest.mark.parametrize(
    ("setter", "getter", "value", "key", "text"),
    [
        ("set_parallelism", "get_parallelism", 4, "parallelism.default", "4"),
        ("set_max_parallelism", "get_max_parallelism", 256, "pipeline.max-parallelism", "256"),
        (
            "set_auto_watermark_interval",
            "get_auto_watermark_interval",
            50,
            "pipeline.auto-watermark-interval",
            "50 ms",
        ),
        (
            "set_global_job_parameters",
            "get_global_job_parameters",
            {"a": "1"},
            "pipeline.global-job-parameters",
            "{a: '1'}",
        ),
        ("set_latency_tracking_interval", "get_latency_tracking_interval", 5, "metrics.latency.interval", "5 ms"),
        ("set_task_cancellation_interval", "get_task_cancellation_interval", 7, "task.cancellation.interval", "7 ms"),
        ("set_task_cancellation_timeout", "get_task_cancellation_timeout", 9, "task.cancellation.timeout", "9 ms"),
        (
            "set_use_snapshot_compression",
            "is_use_snapshot_compression",
            False,
            "execution.checkpointing.snapshot-compression",
            "false",
        ),
    ],
)
def test_setters_write_the_key_that_getters_read(setter: str, getter: str, value: Any, key: str, text: str) -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    assert getattr(config, setter)(value) is config
    assert configuration.to_dict() == {key: text}
    assert getattr(config, getter)() == value


def test_it_sees_what_others_write_into_its_configuration() -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    configuration.set_string("parallelism.default", "8")
    assert config.get_parallelism() == 8


def test_minus_one_takes_the_parallelism_back() -> None:
    configuration = Configuration()
    ExecutionConfig(configuration).set_parallelism(4).set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)
    assert configuration.to_dict() == {}


def test_a_bad_value_is_refused_where_it_is_set() -> None:
    with pytest.raises(ConfigurationError, match=r"parallelism\.default cannot be '0'"):
        ExecutionConfig().set_parallelism(0)


def test_job_parameters_become_text() -> None:
    assert ExecutionConfig().set_global_job_parameters({"n": 5}).get_global_job_parameters() == {"n": "5"}


def test_switches_answer_what_was_set() -> None:
    config = ExecutionConfig()
    assert config.has_auto_generated_uids_enabled()
    assert not config.disable_auto_generated_uids().has_auto_generated_uids_enabled()
    assert config.enable_auto_generated_uids().has_auto_generated_uids_enabled()
    assert not config.is_object_reuse_enabled()
    assert config.enable_object_reuse().is_object_reuse_enabled()
    assert not config.disable_object_reuse().is_object_reuse_enabled()


def test_avro_is_refused_with_the_reason() -> None:
    config = ExecutionConfig()
    with pytest.raises(UnsupportedOperationError, match="Avro"):
        config.enable_force_avro()
    assert not config.disable_force_avro().is_force_avro_enabled()


def test_equal_by_what_is_set() -> None:
    assert ExecutionConfig().set_parallelism(2) == ExecutionConfig().set_parallelism(2)
    assert ExecutionConfig().set_parallelism(2) != ExecutionConfig()
    assert hash(ExecutionConfig()) == hash(ExecutionConfig())
