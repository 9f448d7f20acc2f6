"""Tools for tests of jobs and connectors; PyFlink has none. They do not need pytest.

========================  ==============================================================================================
``harness``               one operator with records, watermarks and time in the hands of a test
``two_inputs``            the same for an operator of two connected streams
``joins``                 the same for joins and co-groups in windows
``async_harness``         the same for async functions, whose time a test moves
``operator_snapshot``     the state of one subtask of it
``sources``               a source that is a list, with an end or a crash written into it
``clock``                 a clock that a test turns by hand
``in_process``            runs a job's epochs without Spark, with tasks that run twice or are lost
``failing_storage``       a checkpoint storage whose calls fail on demand
``source_contract``       the checks that every source must pass
``sink_contract``         the checks that every sink must pass
``sink_run``              a run of a sink, step by step
``connector_contexts``    what the engine would hand a connector
========================  ==============================================================================================

A module is loaded when one of its names is first used: tasks load the list source without all the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.async_harness import AsyncHarness as AsyncHarness
    from penstock.testing.clock import ManualClock as ManualClock
    from penstock.testing.connector_contexts import AsyncCall as AsyncCall
    from penstock.testing.connector_contexts import RecordingOutput as RecordingOutput
    from penstock.testing.connector_contexts import TestBatchContext as TestBatchContext
    from penstock.testing.connector_contexts import TestCommitRequest as TestCommitRequest
    from penstock.testing.connector_contexts import TestCommitterContext as TestCommitterContext
    from penstock.testing.connector_contexts import TestEnumeratorContext as TestEnumeratorContext
    from penstock.testing.connector_contexts import TestReaderContext as TestReaderContext
    from penstock.testing.connector_contexts import TestWriterContext as TestWriterContext
    from penstock.testing.failing_storage import FailingStorage as FailingStorage
    from penstock.testing.harness import OperatorHarness as OperatorHarness
    from penstock.testing.in_process import Chaos as Chaos
    from penstock.testing.in_process import InProcessEpochRunner as InProcessEpochRunner
    from penstock.testing.joins import JoinHarness as JoinHarness
    from penstock.testing.operator_snapshot import OperatorSnapshot as OperatorSnapshot
    from penstock.testing.sink_contract import SinkContract as SinkContract
    from penstock.testing.sink_contract import SinkUnderTest as SinkUnderTest
    from penstock.testing.sink_run import SinkCheckpoint as SinkCheckpoint
    from penstock.testing.sink_run import SinkRun as SinkRun
    from penstock.testing.source_contract import SourceCheckpoint as SourceCheckpoint
    from penstock.testing.source_contract import SourceContract as SourceContract
    from penstock.testing.source_contract import SourceRun as SourceRun
    from penstock.testing.sources import ABORT as ABORT
    from penstock.testing.sources import EOF as EOF
    from penstock.testing.sources import ListSource as ListSource
    from penstock.testing.sources import ListSourceAbort as ListSourceAbort
    from penstock.testing.sources import Sentinel as Sentinel
    from penstock.testing.stream_records import StreamRecord as StreamRecord
    from penstock.testing.stream_records import Watermark as Watermark
    from penstock.testing.two_inputs import TwoInputHarness as TwoInputHarness

_NAMES_OF_MODULES = {
    "async_harness": ("AsyncHarness",),
    "clock": ("ManualClock",),
    "connector_contexts": (
        *("AsyncCall", "RecordingOutput", "TestBatchContext", "TestCommitRequest", "TestCommitterContext"),
        *("TestEnumeratorContext", "TestReaderContext", "TestWriterContext"),
    ),
    "failing_storage": ("FailingStorage",),
    "harness": ("OperatorHarness",),
    "in_process": ("Chaos", "InProcessEpochRunner"),
    "joins": ("JoinHarness",),
    "operator_snapshot": ("OperatorSnapshot",),
    "sink_contract": ("SinkContract", "SinkUnderTest"),
    "sink_run": ("SinkCheckpoint", "SinkRun"),
    "source_contract": ("SourceCheckpoint", "SourceContract", "SourceRun"),
    "sources": ("ABORT", "EOF", "ListSource", "ListSourceAbort", "Sentinel"),
    "stream_records": ("StreamRecord", "Watermark"),
    "two_inputs": ("TwoInputHarness",),
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULES.items() for name in names}

__all__ = list(_MODULE_OF_NAME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF_NAME.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
