"""Reads and writes savepoints without a job, as Flink's State Processor API does in Java; not in PyFlink.

=====================  =================================================================================================
`Savepoint`            what is in a savepoint or checkpoint; its states as Python values, pandas, Arrow and Spark
`SavepointWriter`      a new savepoint, from nothing or from another one, that a job starts from
`StateRows`            one state, whatever becomes of it
`KeyedEntry` …         one entry of a state
`ABSENT`               no value, also where None is one
`SavepointInfo` …      what `Savepoint.info` says
=====================  =================================================================================================

Reading entries unpickles them, with the classes of the program that reads. Nothing else here does.
"""

from __future__ import annotations

from penstock._engine.savepoints.counting import KeyedStateInfo
from penstock._engine.savepoints.inspection import (
    OperatorInfo,
    OperatorStateInfo,
    SavepointInfo,
    SourceInfo,
    VertexInfo,
)
from penstock._engine.savepoints.verification import DamagedFile, Verification
from penstock._engine.state.table import ABSENT
from penstock.savepoint.entries import BroadcastEntry, KeyedEntry, ListItem, MapEntry, SplitEntry, TimerEntry
from penstock.savepoint.rows import StateRows
from penstock.savepoint.savepoint import Savepoint
from penstock.savepoint.writer import SavepointWriter

__all__ = [
    "ABSENT",
    "BroadcastEntry",
    "DamagedFile",
    "KeyedEntry",
    "KeyedStateInfo",
    "ListItem",
    "MapEntry",
    "OperatorInfo",
    "OperatorStateInfo",
    "Savepoint",
    "SavepointInfo",
    "SavepointWriter",
    "SourceInfo",
    "SplitEntry",
    "StateRows",
    "TimerEntry",
    "Verification",
    "VertexInfo",
]
