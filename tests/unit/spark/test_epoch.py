"""How an epoch's dispatches reach its tasks."""

from __future__ import annotations

import pytest

from penstock._engine.plan.epoch_plan import EpochPlan
from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch, decode
from penstock._engine.spark.epoch import pack_dispatches, unpack_dispatch
from penstock.errors import InternalError


def dispatch(level: int) -> LevelDispatch:
    slots = ((SubtaskDispatch(level, 0), SubtaskDispatch(level, 2)), (SubtaskDispatch(level, 1),))
    return LevelDispatch(
        "0" * 32, "job", "run", 0, 7, level, slots, (2, 2), {level: 0}, b"\x00\xff", None, "checkpoints"
    )


def test_each_level_finds_its_own_dispatch_in_the_job_property() -> None:
    packed = pack_dispatches(EpochPlan(7, 1, (dispatch(0), dispatch(1))))
    for level in (0, 1):
        assert decode(unpack_dispatch(packed, level), LevelDispatch) == dispatch(level)


def test_a_job_property_is_text_that_any_transport_takes() -> None:
    assert pack_dispatches(EpochPlan(7, 1, (dispatch(0),))).isascii()


def test_a_task_without_its_dispatch_says_what_hinders_it() -> None:
    with pytest.raises(InternalError, match="PYSPARK_PIN_THREAD"):
        unpack_dispatch(None, 0)
