"""Errors before the job starts: the program has to change."""

from __future__ import annotations

from penstock._errors.root import PenstockError


class JobGraphError(PenstockError):
    """The program describes a job that cannot run; changing the program helps, trying again does not."""


class ConfigurationError(JobGraphError):
    """A configuration key has a value that it cannot have.

    Args:
        key: The key as the user wrote it.
        value: The rejected value as text.
        reason: What is wrong with it, a clause without a full stop.
        origin: Where the value came from, such as a file or an environment variable; empty for the program itself.
    """

    def __init__(self, key: str, value: str, reason: str, origin: str = "") -> None:
        super().__init__(key, value, reason, origin)
        self.key, self.value, self.reason, self.origin = key, value, reason, origin

    def __str__(self) -> str:
        origin = f" (set in {self.origin})" if self.origin else ""
        return f"{self.key} cannot be {self.value!r}{origin}: {self.reason}."


class UnknownKeyError(ConfigurationError):
    """A configuration key is nearly one that Penstock reads, and there is none of that name."""

    def __str__(self) -> str:
        origin = f" (set in {self.origin})" if self.origin else ""
        return f"There is no key {self.key}{origin}, so {self.value!r} would have no effect: {self.reason}."


class ConfigurationFileError(JobGraphError):
    """A configuration file cannot be read, or is not made of keys and values.

    Args:
        path: The file.
        reason: What is wrong with it, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"The configuration file {self.path} cannot be read: {self.reason}. It holds Flink's keys as YAML, flat or "
            "nested; if it is another program's file, let PENSTOCK_CONF_DIR name the directory of the right one."
        )


class PathError(JobGraphError, ValueError):
    """A path or URL cannot be, or is probably not the one that was meant.

    Args:
        path: As the user wrote it.
        reason: What is wrong with it, and what to write instead, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"The path {self.path!r} cannot be used: {self.reason}."


class DuplicateUidError(JobGraphError):
    """Two operators of one job carry the same uid, so their state could not be told apart.

    Args:
        uid: The uid.
        first: The operator that had it first: its name and the user's file and line.
        second: The operator that took it again, likewise.
    """

    def __init__(self, uid: str, first: str, second: str) -> None:
        super().__init__(uid, first, second)
        self.uid, self.first, self.second = uid, first, second

    def __str__(self) -> str:
        return (
            f"Two operators have the uid {self.uid!r}: {self.first} and {self.second}. A uid names the state of one "
            "operator in checkpoints; give one of them another."
        )


class EmptyJobError(JobGraphError):
    """The environment was told to execute and has no sink to run.

    Args:
        job_name: The name that the job would have had.
    """

    def __init__(self, job_name: str) -> None:
        super().__init__(job_name)
        self.job_name = job_name

    def __str__(self) -> str:
        return (
            f"Job {self.job_name!r} has no operators to execute: no sink was added since the last execution. End a "
            "stream with sink_to(...) or print() before execute()."
        )


class ForwardParallelismError(JobGraphError):
    """``forward()`` joins two operators of different parallelism.

    Args:
        upstream: The name of the sending operator.
        upstream_parallelism: Its number of subtasks.
        downstream: The name of the receiving operator.
        downstream_parallelism: Its number of subtasks.
    """

    def __init__(self, upstream: str, upstream_parallelism: int, downstream: str, downstream_parallelism: int) -> None:
        super().__init__(upstream, upstream_parallelism, downstream, downstream_parallelism)
        self.upstream, self.upstream_parallelism = upstream, upstream_parallelism
        self.downstream, self.downstream_parallelism = downstream, downstream_parallelism

    def __str__(self) -> str:
        return (
            f"forward() from {self.upstream!r} (parallelism {self.upstream_parallelism}) to {self.downstream!r} "
            f"(parallelism {self.downstream_parallelism}) is not possible: it sends each subtask to the one with the "
            "same index. Give both the same parallelism, or use rebalance() or rescale()."
        )


class KeyEncodingError(JobGraphError):
    """A key holds a value without a canonical encoding, so equal keys could land in different places.

    Args:
        key: The key's repr, shortened.
        path: Where in the key the value stands, such as ``key[1].owner``.
        type_name: The qualified name of the value's type.
    """

    def __init__(self, key: str, path: str, type_name: str) -> None:
        super().__init__(key, path, type_name)
        self.key, self.path, self.type_name = key, path, type_name

    def __str__(self) -> str:
        return (
            f"The key {self.key} cannot be used: {self.path} is a {self.type_name}, which has no canonical encoding. "
            "Keys are made of None, bool, int, float, complex, str, bytes, Decimal, dates and times, UUID, Enum, "
            "tuple, Row, frozenset and frozen dataclasses; let the key selector return one of these."
        )


class StateDescriptorError(JobGraphError):
    """A state is declared as one kind or with one type, but was written as another.

    Args:
        state: The name of the state.
        written: The kind that it was written or first declared as, such as ``value`` or ``value[int]``.
        declared: The kind that it is declared as now.
    """

    def __init__(self, state: str, written: str, declared: str) -> None:
        super().__init__(state, written, declared)
        self.state, self.written, self.declared = state, written, declared

    def __str__(self) -> str:
        ways = f"Declare it as {self.written} state, or give the new state another name."
        if self.written.partition("[")[0] == self.declared.partition("[")[0]:
            ways = (
                f"Declare it as {self.written} or without a type, convert its values in a savepoint "
                "(penstock.savepoint.SavepointWriter), or give the new state another name."
            )
        found = f"State {self.state!r} is declared as {self.declared} state, but was written as {self.written} state."
        return f"{found} {ways}"


class DeclaredTypeError(JobGraphError, ValueError, TypeError):
    """A value does not fit the type that the program declares for it.

    Args:
        declared_by: What the type is declared for, such as ``The output of 'Map'``.
        type_info: The type.
        value: The value's repr, shortened.
        path: Where in the value the misfit stands, such as ``.scores[2]``; empty for the value itself.
        reason: What is wrong there, a clause without a full stop.
    """

    def __init__(self, declared_by: str, type_info: str, value: str, path: str, reason: str) -> None:
        super().__init__(declared_by, type_info, value, path, reason)
        self.declared_by, self.type_info, self.value = declared_by, type_info, value
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        where = f" at {self.path.lstrip()}" if self.path else ""
        return (
            f"{self.declared_by} is declared as {self.type_info}, and {self.value} does not fit{where}: {self.reason}. "
            "Change the value, declare another type, or leave the type out."
        )


class UncopyableRecordError(JobGraphError, TypeError):
    """A record that leaves a function can neither be pickled nor copied, so that its receiver has none of its own.

    Args:
        record_type: The record's class, such as ``builtins.generator``.
        reason: What copying it said.
    """

    def __init__(self, record_type: str, reason: str) -> None:
        super().__init__(record_type, reason)
        self.record_type, self.reason = record_type, reason

    def __str__(self) -> str:
        return (
            f"A record of class {self.record_type} cannot be copied: {self.reason}. Let the function give something "
            "that can be pickled, or set pipeline.object-reuse to true: records are then handed on without a copy."
        )


class AccumulatorTypeError(JobGraphError):
    """One name stands for accumulators of two classes.

    Args:
        name: The name of the accumulator.
        found: The class of the one that is there, such as ``penstock.common.accumulators.IntCounter``.
        wanted: The class of the other one.
    """

    def __init__(self, name: str, found: str, wanted: str) -> None:
        super().__init__(name, found, wanted)
        self.name, self.found, self.wanted = name, found, wanted

    def __str__(self) -> str:
        return (
            f"Accumulator {self.name!r} is both a {self.found} and a {self.wanted}. All accumulators of one name are "
            "added up, over subtasks, operators and restarts: give one of them another name."
        )


class UnpicklableFunctionError(JobGraphError):
    """A function given to an operator cannot be pickled, so it cannot travel to the tasks.

    Args:
        function: The function: its name and the user's file and line.
        path: The captured variable or attribute at fault, such as ``client.session._lock``.
        reason: What pickling said about it.
    """

    def __init__(self, function: str, path: str, reason: str) -> None:
        super().__init__(function, path, reason)
        self.function, self.path, self.reason = function, path, reason

    def __str__(self) -> str:
        return (
            f"{self.function} cannot be sent to the tasks because of {self.path}: {self.reason}. Make that object in "
            "open(), or keep it out of the function."
        )


class UnsupportedOperationError(JobGraphError):
    """The program uses a part of PyFlink's API, or a combination, that Penstock does not offer.

    Args:
        operation: What was called.
        reason: Why it is not there and what to use in its place, a clause without a full stop.
    """

    def __init__(self, operation: str, reason: str) -> None:
        super().__init__(operation, reason)
        self.operation, self.reason = operation, reason

    def __str__(self) -> str:
        return f"{self.operation} is not supported: {self.reason}."
