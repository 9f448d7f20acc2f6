"""A function that does to its states what its records say, in a harness that is one process of a subtask's host."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock._engine.protocol.key_groups import key_group, subtask_of_key_group
from penstock._engine.protocol.keys import normal_key
from penstock.datastream.functions import KeyedBroadcastProcessFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.testing import TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from penstock.testing import OperatorSnapshot

_GETTERS: dict[type[Any], str] = {
    ValueStateDescriptor: "get_state",
    ListStateDescriptor: "get_list_state",
    MapStateDescriptor: "get_map_state",
    ReducingStateDescriptor: "get_reducing_state",
    AggregatingStateDescriptor: "get_aggregating_state",
}


class _Doing(KeyedBroadcastProcessFunction):
    """Records are pairs of a key and what to do there; those of the broadcast do something to all keys."""

    def __init__(self, descriptors: tuple[Any, ...]) -> None:
        self.descriptors = descriptors
        self.fired: list[tuple[int, Any]] = []
        #: Is called when a timer fires, with its time.
        self.in_timer: Callable[[int, Any], None] | None = None

    def open(self, runtime_context: Any) -> None:
        self.states = {
            descriptor.get_name(): getattr(runtime_context, _GETTERS[type(descriptor)])(descriptor)
            for descriptor in self.descriptors
        }

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[1](self.states, ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        value(ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.fired.append((timestamp, ctx.get_current_key()))
        if self.in_timer is not None:
            self.in_timer(timestamp, ctx)


class Process:
    """A process that runs one subtask of the function.

    Args:
        descriptors: The states that the function has.
        directory: The disk of its host; None for state that is in memory whole.
        memory_bytes: The memory for state.
        subtask: Its index and the parallelism.
        now_ms: The processing time.
    """

    def __init__(
        self,
        descriptors: Iterable[Any],
        directory: Path | None = None,
        memory_bytes: int | None = None,
        subtask: tuple[int, int] = (0, 1),
        now_ms: int = 0,
    ) -> None:
        self.function = _Doing(tuple(descriptors))
        self.harness = TwoInputHarness.for_keyed_broadcast_process(
            self.function,
            lambda pair: pair[0],
            subtask_index=subtask[0],
            parallelism=subtask[1],
            state_memory_bytes=memory_bytes,
            state_directory=directory,
        )
        self.harness.clock.jump(now_ms)

    def at(self, key: Any, what: Callable[[dict[str, Any], Any], Any]) -> Any:
        """Return what something gives that is done to the states of a key."""
        return self.at_each([(key, what)])[0]

    def at_each(self, asked: list[tuple[Any, Callable[[dict[str, Any], Any], Any]]]) -> list[Any]:
        """Do things for a batch of keys."""
        self.harness.process_elements(asked)
        found = self.harness.values()
        self.harness.clear_output()
        return found

    def everywhere(self, what: dict[Any, Callable[[Any, Any, str], None]]) -> None:
        """By descriptor, do something to each key that has a value in that state: it gets key, state and name."""

        def each(ctx: Any) -> None:
            for descriptor, do in what.items():
                ctx.apply_to_keyed_state(descriptor, partial(do, name=descriptor.get_name()))

        self.harness.process_element2(each)

    def jump_to(self, now_ms: int) -> None:
        """Set the clock."""
        self.harness.clock.jump(now_ms - self.harness.clock.now_ms())

    def fire(self, limit: int) -> list[tuple[int, Any]]:
        """Return the timers that fire at a processing time, in their order; the clock then shows what it did before."""
        now = self.harness.clock.now_ms()
        self.function.fired.clear()
        self.jump_to(limit)
        self.harness.set_processing_time(limit)
        self.jump_to(now)
        return list(self.function.fired)

    def advance(self, watermark: int) -> list[tuple[int, Any]]:
        """Return the timers that fire at a watermark of both inputs, in their order."""
        self.function.fired.clear()
        self.harness.process_watermark(watermark)
        self.harness.process_watermark2(watermark)
        return list(self.function.fired)

    def begin(self, snapshots: list[OperatorSnapshot]) -> None:
        """Begin an epoch after a checkpoint."""
        if snapshots:
            self.harness.restore(*snapshots)
        self.harness.open()

    def end(self, *, incremental: bool = True) -> OperatorSnapshot:
        """End the epoch; whoever begins the next one says whether its checkpoint has completed."""
        return self.harness.snapshot(incremental=incremental, completes=False)


class OneState:
    """A function with one state, and its checkpoints.

    Args:
        descriptor: Describes the state.
        directory: The disks of its hosts; None for state that is in memory whole.
        memory_bytes: The memory for state.
    """

    def __init__(self, descriptor: Any, directory: Path | None = None, memory_bytes: int | None = None) -> None:
        self.descriptor, self.directory, self.memory_bytes = descriptor, directory, memory_bytes
        #: The newest checkpoint, once there is one.
        self.snapshots: list[OperatorSnapshot] = []
        self.hosts = 0
        self.start()

    def start(self) -> None:
        """Start the function on another host, which has nothing but the newest checkpoint."""
        self.hosts += 1
        disk = self.directory and self.directory / str(self.hosts)
        self.process = Process([self.descriptor], disk, self.memory_bytes)
        self.process.begin(self.snapshots)

    def of(self, key: Any) -> Any:
        """Return the state of a key, whose methods are called in a record of that key."""
        return _StateOf(self.process, key, self.descriptor.get_name())

    def within(self, key: Any, what: Callable[[Any], Any]) -> Any:
        """Return what something gives that is done to the state within one record of a key."""
        return self.process.at(key, lambda states, _: what(states[self.descriptor.get_name()]))

    def keys_with_value(self) -> list[Any]:
        """Return the keys that have a value, in no order."""
        found: list[Any] = []
        self.process.everywhere({self.descriptor: lambda key, _state, name: found.append(key)})
        return found

    def commit(self, *, counts: bool = True, incremental: bool = True, anew: bool = False) -> int:
        """End the epoch and begin the next one.

        Args:
            counts: Whether the checkpoint completes; else the next epoch begins where this one has begun.
            incremental: Whether the checkpoint refers to the one before.
            anew: Whether the next epoch runs on another host.

        Returns:
            The bytes that the epoch has added to the checkpoint.
        """
        taken = self.process.end(incremental=incremental)
        before = self.snapshots[0].lineage if self.snapshots else ()
        if counts:
            self.snapshots = [taken]
        if anew or not self.snapshots:
            self.start()
        else:
            self.process.begin(self.snapshots)
        return sum(handle.size for handle in taken.lineage if handle not in before)


class _StateOf:
    def __init__(self, process: Process, key: Any, name: str) -> None:
        self._process, self._key, self._name = process, key, name

    def _call(self, method: str, *args: Any) -> Any:
        """Call a method in a record; an iterator is gone through there."""

        def call(states: dict[str, Any], _: Any) -> Any:
            given = getattr(states[self._name], method)(*args)
            return list(given) if isinstance(given, Iterator) else given

        return self._process.at(self._key, call)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._call, method)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._call("__iter__"))

    def __contains__(self, item: Any) -> bool:
        return self._call("__contains__", item)

    def __getitem__(self, item: Any) -> Any:
        return self._call("__getitem__", item)

    def __setitem__(self, item: Any, value: Any) -> None:
        self._call("__setitem__", item, value)

    def __delitem__(self, item: Any) -> None:
        self._call("__delitem__", item)


class Subtasks:
    """Processes of one host that run all subtasks of the function; each epoch begins with :meth:`begin`.

    Args:
        descriptors: The states that the function has.
        parallelism: The number of subtasks.
        directory: The disk of the host; None for state that is in memory whole.
        memory_bytes: The memory for the state of a subtask.
        now_ms: The processing time.
    """

    def __init__(
        self,
        descriptors: Iterable[Any],
        parallelism: int = 1,
        directory: Path | None = None,
        memory_bytes: int | None = None,
        now_ms: int = 0,
    ) -> None:
        self.descriptors, self.parallelism = tuple(descriptors), parallelism
        self.directory, self.memory_bytes, self.now_ms = directory, memory_bytes, now_ms
        self.processes: list[Process] = []

    def begin(self, snapshots: list[OperatorSnapshot], *, moves: bool = False) -> None:
        """Begin an epoch after the checkpoint of all subtasks, at this or another parallelism, or the first one.

        Args:
            snapshots: The checkpoint; empty before the first one.
            moves: Whether other processes of the host run it than those that ran the one before.
        """
        if moves or not snapshots or not self.processes:
            self.processes = [self._process(subtask) for subtask in range(self.parallelism)]
        for subtask, process in enumerate(self.processes):
            process.begin(snapshots[subtask : subtask + 1] if len(snapshots) == self.parallelism else snapshots)

    def _process(self, subtask: int) -> Process:
        place = self.directory and self.directory / f"{self.parallelism}-{subtask}"
        return Process(self.descriptors, place, self.memory_bytes, (subtask, self.parallelism), self.now_ms)

    def end(self, *, incremental: bool = True) -> list[OperatorSnapshot]:
        """End the epoch of all subtasks."""
        return [process.end(incremental=incremental) for process in self.processes]

    def of(self, key: Any) -> Process:
        """Return the process that has a key."""
        return self.processes[owner(key, self.parallelism)]

    def at(self, key: Any, what: Callable[[dict[str, Any], Any], Any]) -> Any:
        """Return what something gives that is done to the states of a key."""
        return self.of(key).at(key, what)

    def at_each(self, asked: list[tuple[Any, Callable[[dict[str, Any], Any], Any]]]) -> None:
        """Do things for a batch of keys."""
        for process in self.processes:
            process.at_each([(key, what) for key, what in asked if self.of(key) is process])

    def everywhere(self, what: dict[Any, Callable[[Any, Any, str], None]]) -> None:
        """By descriptor, do something to each key that has a value in that state: it gets key, state and name."""
        for process in self.processes:
            process.everywhere(what)

    def fire(self, limit: int) -> list[tuple[int, Any]]:
        """Return the timers that fire at a processing time, in their order of all subtasks."""
        return list(merge(*[process.fire(limit) for process in self.processes], key=itemgetter(0)))

    def jump_to(self, now_ms: int) -> None:
        """Set the clocks."""
        self.now_ms = now_ms
        for process in self.processes:
            process.jump_to(now_ms)


def timer(time: int, domain: str, *, is_set: bool = True) -> Callable[[Any, Any], None]:
    """Return what sets or deletes a timer, for :meth:`Process.at`; the domain is "event" or "processing"."""
    method = f"{'register' if is_set else 'delete'}_{domain}_time_timer"
    return lambda _, ctx: getattr(ctx.timer_service(), method)(time)


def owner(key: Any, parallelism: int) -> int:
    """Return the subtask of a key."""
    return subtask_of_key_group(key_group(normal_key(key), 128), parallelism, 128)
