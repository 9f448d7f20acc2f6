"""Errors before the job starts: the program has to change."""

from __future__ import annotations

from penstock._errors.root import PenstockError, declared


class JobGraphError(PenstockError):
    """The program describes a job that cannot run; changing the program helps, trying again does not."""


@declared
class ConfigurationError(JobGraphError):
    """A configuration key has an invalid value."""

    key: str  #: the key as the user wrote it
    value: str  #: the rejected value as text
    reason: str  #: what is wrong with it, a clause without a full stop
    #: where the value came from, such as a file or an environment variable; empty for the program itself
    origin: str = ""

    def __str__(self) -> str:
        origin = f" (set in {self.origin})" if self.origin else ""
        return f"{self.key} cannot be {self.value!r}{origin}: {self.reason}."


class UnknownKeyError(ConfigurationError):
    """A configuration key is unknown, and probably a misspelt one of Penstock's."""

    def __str__(self) -> str:
        origin = f" (set in {self.origin})" if self.origin else ""
        return f"There is no key {self.key}{origin}, so {self.value!r} would have no effect: {self.reason}."


@declared
class ConfigurationFileError(JobGraphError):
    """A configuration file cannot be read, or is not made of keys and values."""

    path: str  #: the file
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"The configuration file {self.path} cannot be read: {self.reason}. It holds Flink's keys as YAML, flat or "
            "nested; if it is another program's file, let PENSTOCK_CONF_DIR name the directory of the right one."
        )


@declared
class PathError(JobGraphError, ValueError):
    """A path or URL is invalid, or probably not the intended one."""

    path: str  #: as the user wrote it
    reason: str  #: what is wrong with it, and what to write instead, a clause without a full stop

    def __str__(self) -> str:
        return f"The path {self.path!r} cannot be used: {self.reason}."


@declared
class DuplicateUidError(JobGraphError):
    """Two operators of one job have the same uid, so their state would be mixed up."""

    uid: str  #: the uid
    first: str  #: the operator that had it first: its name and the user's file and line
    second: str  #: the operator that took it again, likewise

    def __str__(self) -> str:
        return (
            f"Two operators have the uid {self.uid!r}: {self.first} and {self.second}. A uid names the state of one "
            "operator in checkpoints; give one of them another."
        )


@declared
class EmptyJobError(JobGraphError):
    """The environment executes a program without a sink."""

    job_name: str  #: the name that the job would have had

    def __str__(self) -> str:
        return (
            f"Job {self.job_name!r} has no operators to execute: no sink was added since the last execution. End a "
            "stream with sink_to(...) or print() before execute()."
        )


@declared
class ForwardParallelismError(JobGraphError):
    """``forward()`` joins two operators of different parallelism."""

    upstream: str  #: the name of the sending operator
    upstream_parallelism: int  #: its number of subtasks
    downstream: str  #: the name of the receiving operator
    downstream_parallelism: int  #: its number of subtasks

    def __str__(self) -> str:
        return (
            f"forward() from {self.upstream!r} (parallelism {self.upstream_parallelism}) to {self.downstream!r} "
            f"(parallelism {self.downstream_parallelism}) is not possible: it sends each subtask to the one with the "
            "same index. Give both the same parallelism, or use rebalance() or rescale()."
        )


@declared
class KeyEncodingError(JobGraphError):
    """A key holds a value without a canonical encoding, so equal keys could land in different places."""

    key: str  #: the key's repr, shortened
    path: str  #: the place of the value in the key, such as ``key[1].owner``
    type_name: str  #: the qualified name of the value's type

    def __str__(self) -> str:
        return (
            f"The key {self.key} cannot be used: {self.path} is a {self.type_name}, which has no canonical encoding. "
            "Keys are made of None, bool, int, float, complex, str, bytes, Decimal, dates and times, UUID, Enum, "
            "tuple, Row, frozenset and frozen dataclasses; let the key selector return one of these."
        )


@declared
class StateDescriptorError(JobGraphError):
    """A state is declared as one kind or with one type, but was written as another."""

    state: str  #: the name of the state
    written: str  #: the kind that it was written or first declared as, such as ``value`` or ``value[int]``
    declared: str  #: the kind that it is declared as now

    def __str__(self) -> str:
        ways = f"Declare it as {self.written} state, or give the new state another name."
        if self.written.partition("[")[0] == self.declared.partition("[")[0]:
            ways = (
                f"Declare it as {self.written} or without a type, convert its values in a savepoint "
                "(penstock.savepoint.SavepointWriter), or give the new state another name."
            )
        found = f"State {self.state!r} is declared as {self.declared} state, but was written as {self.written} state."
        return f"{found} {ways}"


@declared
class DeclaredTypeError(JobGraphError, ValueError, TypeError):
    """A value does not fit the type that the program declares for it."""

    declared_by: str  #: what the type is declared for, such as ``The output of 'Map'``
    type_info: str  #: the type
    value: str  #: the value's repr, shortened
    path: str  #: the place of the misfit in the value, such as ``.scores[2]``; empty for the value itself
    reason: str  #: what is wrong there, a clause without a full stop

    def __str__(self) -> str:
        where = f" at {self.path.lstrip()}" if self.path else ""
        says_value = not self.path and self.reason.startswith(self.value)
        misfit = self.reason if says_value else f"{self.value} does not fit{where}: {self.reason}"
        return (
            f"{self.declared_by} is declared as {self.type_info}, and {misfit}. "
            "Change the value, declare another type, or leave the type out."
        )


@declared
class UncopyableRecordError(JobGraphError, TypeError):
    """A record that leaves a function can neither be pickled nor copied, so its receiver cannot own a copy."""

    record_type: str  #: the record's class, such as ``builtins.generator``
    reason: str  #: what copying it said

    def __str__(self) -> str:
        way = "or set pipeline.object-reuse to true: records are then handed on without a copy"
        if self.record_type == "builtins.generator":
            way = "such as a list; a function that yields its records belongs into flat_map()"
        elif self.record_type == "builtins.coroutine":
            way = "and leave out the async: only the functions of AsyncDataStream are awaited"
        return (
            f"A record of class {self.record_type} cannot be copied: {self.reason}. Let the function give something "
            f"that can be pickled, {way}."
        )


@declared
class AccumulatorTypeError(JobGraphError):
    """Accumulators of two classes have the same name."""

    name: str  #: the name of the accumulator
    found: str  #: the class of the one that is there, such as ``penstock.common.accumulators.IntCounter``
    wanted: str  #: the class of the other one

    def __str__(self) -> str:
        return (
            f"Accumulator {self.name!r} is both a {self.found} and a {self.wanted}. All accumulators of one name are "
            "added up, over subtasks, operators and restarts: give one of them another name."
        )


@declared
class UndigestibleFunctionError(JobGraphError):
    """A batch job with recovery has a function of which a later run could not tell whether it is the same."""

    operator: str  #: the operator's name
    uid: str  #: its uid
    reason: str  #: the error of taking the function apart, as pickling does

    def __str__(self) -> str:
        return (
            f"The functions of operator {self.operator!r} (uid {self.uid!r}) have no digest, so a run after a crash "
            f"could not tell whether they are the same: {self.reason.rstrip('.')}. Make that object in open(), or run "
            "the job without execution.batch.job-recovery.enabled."
        )


@declared
class UnpicklableFunctionError(JobGraphError):
    """A function given to an operator cannot be pickled, so it cannot travel to the tasks."""

    function: str  #: the function: its name and the user's file and line
    path: str  #: the captured variable or attribute at fault, such as ``attribute client.session._lock``
    reason: str  #: what pickling said about it

    def __str__(self) -> str:
        return (
            f"{self.function} cannot be sent to the tasks because of {self.path}: {self.reason}. Make that object in "
            "open(), or keep it out of the function."
        )


@declared
class UnsupportedOperationError(JobGraphError):
    """The program uses a part of PyFlink's API, or a combination, that Penstock does not offer."""

    operation: str  #: what was called
    reason: str  #: why it is not there and what to use in its place, a clause without a full stop

    def __str__(self) -> str:
        return f"{self.operation} is not supported: {self.reason}."


class AbsentImportError(UnsupportedOperationError, ImportError):
    """A program imports a name of PyFlink's that Penstock does not have."""


class AbsentAttributeError(UnsupportedOperationError, AttributeError):
    """A program uses an attribute of PyFlink's that Penstock does not have."""


@declared
class KeyRequiredError(JobGraphError, AttributeError):
    """The program uses an operation that needs keys on a stream without keys."""

    call: str  #: what was asked for, such as ``window``
    stream: str  #: the operator that the stream comes from
    hint: str  #: what to use in its place

    def __str__(self) -> str:
        return f"{self.call}() works on the records of a key, and the output of {self.stream} has none: {self.hint}."
