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

from penstock._absent import absent
from penstock._shelf import show_lazily

show_lazily(__name__, absent)
