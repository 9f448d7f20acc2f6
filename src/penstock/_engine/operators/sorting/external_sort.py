"""Sorts records in bounded memory: by key, within a key by timestamp or rank, then in the order of arrival.

Records are collected by key. When they exceed the memory, all records in memory are sorted and written to a file as one
*run*; at the end the runs and the rest in memory are merged. Keys are ordered by their encoding, so the order is the
same whatever was spilled.

Runs are merged part by part: of all runs, what certainly comes before the rest is taken and sorted at once, which costs
Python's sort little, because it finds the runs in it.
"""

from __future__ import annotations

import pickle
from array import array
from bisect import bisect_left
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter, gt, lt
from struct import Struct
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from penstock._engine.operators.sorting.spilling import MOST_RUNS, SpillFiles
from penstock._engine.protocol.keys import encode_normal
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state.files import pickles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

#: The records of one part of a key.
PART_RECORDS: Final = 2048
#: The estimated memory of a record beside its fields, and of a key.
_RECORD_BYTES: Final = 120
_KEY_BYTES: Final = 400
#: The number of records of a batch whose size is taken for that of the others.
_SAMPLE: Final = 8
#: The estimated bytes of a frame of a run: at most, and as a share of the memory. The merge holds a frame of each run.
_FRAME_BYTES: Final = 256 << 10
_FRAMES: Final = 64

_length: Final = Struct("<q")


class Part(NamedTuple):
    """Some records of a key, in order; each part is of one input."""

    #: The encoded key.
    key: Any
    input_index: int
    records: list[Any]
    #: One for each record; None where no record of the sort has one.
    stamps: list[int] | None
    #: What orders the records of a key; None where that is their timestamps.
    ranks: list[Any] | None = None

    @property
    def places(self) -> list[Any]:
        """What orders the records of a key."""
        return (self.stamps or []) if self.ranks is None else self.ranks


class _Records:
    """The records of a key, in the order of arrival."""

    __slots__ = ("inputs", "ranks", "records", "stamps")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.stamps = array("q")
        self.inputs = bytearray()
        self.ranks: list[Any] = []

    @property
    def places(self) -> Sequence[Any]:
        """What orders the records."""
        return self.ranks or self.stamps

    def extend(self, records: list[Any], stamps: list[int] | None, ranks: Sequence[Any] | None, index: int) -> None:
        """Add records of one input."""
        self.records += records
        self.stamps.extend([NO_TIMESTAMP] * len(records) if stamps is None else stamps)
        self.inputs += bytes([index]) * len(records)
        if ranks is not None:
            self.ranks += ranks


class ExternalSorter:
    """Sorts the records of one subtask of an operator.

    Args:
        memory_bytes: The estimated memory that records may take.
        directory: The directory of runs; it is made, and deleted by `close`.
        most_runs: The number of runs at which they are merged into one.
        encode: Returns the place of a key in the order of the keys.
        descending: Whether the greatest rank of a key comes first.

    Raises:
        SortSpillError: The directory cannot be made or written to.
    """

    def __init__(
        self,
        memory_bytes: int,
        directory: Path,
        most_runs: int = MOST_RUNS,
        *,
        encode: Callable[[Any], Any] = encode_normal,
        descending: bool = False,
    ) -> None:
        self._memory_bytes = memory_bytes
        self._frame_bytes = min(_FRAME_BYTES, memory_bytes // _FRAMES)
        self._encode, self._descending = encode, descending
        self._keys: dict[Any, _Records] = {}
        self._bytes = 0
        self._is_stamped = self._is_ranked = False
        self._files = SpillFiles(directory, most_runs)

    def add(
        self,
        keys: Sequence[Any],
        records: list[Any],
        stamps: list[int] | None,
        input_index: int = 0,
        ranks: Sequence[Any] | None = None,
    ) -> None:
        """Add records.

        Args:
            keys: Their keys.
            records: The records.
            stamps: Their timestamps; None where none has one.
            input_index: The input that they come from.
            ranks: What orders the records of a key; None for their timestamps. Either all records have ranks or none.

        Raises:
            SortSpillError: The records do not fit into memory, and there is no room on the disk.
            TypeError: Two ranks cannot be compared.
        """
        known, before = self._keys, len(self._keys)
        self._note(stamps, ranks)
        for place, (key, record) in enumerate(zip(keys, records, strict=True)):
            found = known.get(key)
            if found is None:
                found = known[key] = _Records()
            found.records.append(record)
            found.stamps.append(NO_TIMESTAMP if stamps is None else stamps[place])
            found.inputs.append(input_index)
            if ranks is not None:
                found.ranks.append(ranks[place])
        self._grown(records, len(known) - before)

    def add_all(self, key: Any, records: list[Any], stamps: list[int] | None, ranks: Sequence[Any]) -> None:
        """Add records of one key, see `add`."""
        known, before = self._keys, len(self._keys)
        self._note(stamps, ranks)
        known.setdefault(key, _Records()).extend(records, stamps, ranks, 0)
        self._grown(records, len(known) - before)

    def _note(self, stamps: list[int] | None, ranks: Sequence[Any] | None) -> None:
        self._is_stamped = self._is_stamped or stamps is not None
        self._is_ranked = ranks is not None

    def _grown(self, records: list[Any], keys: int) -> None:
        """Write what is in memory to a run if there is too much of it."""
        self._bytes += len(records) * _estimated(records) + keys * _KEY_BYTES
        if self._bytes >= self._memory_bytes:
            self._spill()

    def parts(self) -> Iterator[Part]:
        """Iterate all records in order, once; the parts of a key follow one another.

        Raises:
            SortSpillError: A run cannot be read.
            TypeError: Two ranks cannot be compared.
        """
        runs = [self._read(file) for file in self._files.runs]
        in_order = self._merged([*runs, self._in_memory()])
        for part in in_order:
            yield part if self._is_stamped else part._replace(stamps=None)

    def some_ranks(self) -> list[Any]:
        """Return the ranks in memory, and of each run some: those that cannot be compared are among them."""
        held = [rank for found in self._keys.values() for rank in found.ranks]
        firsts = (next(self._read(file), None) for file in self._files.runs)
        return [*(part.places[0] for part in firsts if part is not None), *held]

    def close(self) -> None:
        """Delete the runs."""
        self._keys.clear()
        self._files.close()

    # ------------------------------------------------------------------------------------------------------- the runs

    @property
    def _is_ordered(self) -> bool:
        """Whether records of a key have another order than that of their arrival."""
        return self._is_stamped or self._is_ranked

    def _in_memory(self) -> Iterator[Part]:
        encoded = sorted(((self._encode(key), key) for key in self._keys), key=_first)
        for place, key in encoded:
            found = self._keys[key]
            order: Sequence[int] = range(len(found.records))
            if self._is_ordered:
                order = sorted(order, key=found.places.__getitem__, reverse=self._descending)
            yield from _cut(place, found, order)

    def _spill(self) -> None:
        self._write(self._in_memory())
        self._keys, self._bytes = {}, 0
        self._files.merge_many(lambda files: self._write(self._merged([self._read(file) for file in files])))

    def _write(self, parts: Iterable[Part]) -> None:
        """Write parts, which are in order, as one more run."""
        frame, size = list[Part](), 0
        with self._files.naming():
            file = self._files.new()
            for part in parts:
                frame.append(part)
                size += len(part.records) * _estimated(part.records)
                if size >= self._frame_bytes:
                    _write_frame(file.write, frame)
                    frame, size = [], 0
            if frame:
                _write_frame(file.write, frame)
            file.flush()

    def _read(self, file: IO[bytes]) -> Iterator[Part]:
        with self._files.naming():
            file.seek(0)
            while head := file.read(_length.size):
                for part in pickle.loads(file.read(*_length.unpack(head))):
                    yield Part(*part)

    def _merged(self, runs: list[Iterator[Part]]) -> Iterator[Part]:
        """Merge runs, oldest first: equal ones keep their order."""
        if len(runs) == 1:
            return runs[0]
        if not self._is_ordered:
            return merge(*runs, key=attrgetter("key"))
        return _Merge(runs, descending=self._descending).parts()


class _Merge:
    """Merges runs whose keys have an order of their own.

    Args:
        runs: The runs, oldest first.
        descending: Whether the greatest place of a key comes first.
    """

    def __init__(self, runs: list[Iterator[Part]], *, descending: bool) -> None:
        self._runs = runs
        self._descending = descending
        self._is_before: Callable[[Any, Any], bool] = gt if descending else lt
        #: The next part of each run, None after its end.
        self._heads = [next(run, None) for run in runs]
        self._waiting = [(head.key, number) for number, head in enumerate(self._heads) if head is not None]

    def parts(self) -> Iterator[Part]:
        """Iterate the parts of all runs."""
        waiting, heads = self._waiting, self._heads
        heapify(waiting)
        while waiting:
            key, number = heappop(waiting)
            numbers = [number]
            while waiting and waiting[0][0] == key:
                numbers.append(heappop(waiting)[1])
            if len(numbers) > 1:
                yield from self._taken(key, numbers)
            else:
                head = heads[number]
                assert head is not None
                heads[number] = next(self._runs[number], None)
                yield head
            for number in numbers:
                if (head := heads[number]) is not None:
                    heappush(waiting, (head.key, number))

    def _taken(self, key: Any, numbers: list[int]) -> Iterator[Part]:
        """Yield what of the next parts of some runs, which are of one key, comes before all that follows."""
        heads, last = self._heads, self._first_to_end(numbers)
        bound = _head(heads, last).places[-1]
        found = _Records()
        for number in numbers:
            part = _head(heads, number)
            count = len(part.records) if number == last else self._count(part.places, bound, equal=number < last)
            found.extend(part.records[:count], part.stamps and part.stamps[:count], None, part.input_index)
            if part.ranks is not None:
                found.ranks += part.ranks[:count]
            rest = count < len(part.records)
            heads[number] = _without(part, count) if rest else next(self._runs[number], None)
        order = sorted(range(len(found.records)), key=found.places.__getitem__, reverse=self._descending)
        yield from _cut(key, found, order)

    def _first_to_end(self, numbers: list[int]) -> int:
        """Return the run whose next part ends first, among equal ones the oldest."""
        first, end = numbers[0], _head(self._heads, numbers[0]).places[-1]
        for number in numbers[1:]:
            other = _head(self._heads, number).places[-1]
            if self._is_before(other, end):
                first, end = number, other
        return first

    def _count(self, places: list[Any], bound: Any, *, equal: bool) -> int:
        """Return how many places come before a bound, or are equal to it where such ones count."""
        is_before = self._is_before
        if equal:
            return bisect_left(range(len(places)), True, key=lambda at: is_before(bound, places[at]))
        return bisect_left(range(len(places)), True, key=lambda at: not is_before(places[at], bound))


def _head(heads: list[Part | None], number: int) -> Part:
    head = heads[number]
    assert head is not None
    return head


def _without(part: Part, count: int) -> Part:
    """Return a part without its first records."""
    stamps, ranks = part.stamps and part.stamps[count:], part.ranks and part.ranks[count:]
    return Part(part.key, part.input_index, part.records[count:], stamps, ranks)


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _estimated(records: list[Any]) -> int:
    """Return the estimated memory of one of some records: pickled objects take about half of it."""
    sample = records[:: max(1, len(records) // _SAMPLE)]
    return 2 * len(pickles.dump(sample)) // max(1, len(sample)) + _RECORD_BYTES


def _cut(key: Any, found: _Records, order: Sequence[int]) -> Iterator[Part]:
    """Yield the records of a key in an order, in parts of one input each."""
    start = 0
    for place in range(1, len(order) + 1):
        is_full = place - start == PART_RECORDS or place == len(order)
        if is_full or found.inputs[order[place]] != found.inputs[order[start]]:
            run = order[start:place]
            records, stamps = [found.records[at] for at in run], [found.stamps[at] for at in run]
            ranks = [found.ranks[at] for at in run] if found.ranks else None
            yield Part(key, found.inputs[run[0]], records, stamps, ranks)
            start = place


def _write_frame(write: Callable[[bytes], object], parts: list[Part]) -> None:
    data = pickles.dump([tuple(part) for part in parts])
    write(_length.pack(len(data)))
    write(data)
