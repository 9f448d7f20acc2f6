"""The receivers of keys, for the routers of rows and of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.protocol.key_groups import int_key_groups, key_groups, subtask_of_key_group
from penstock._engine.protocol.keys import equal_as_encoded
from penstock.common.copies import any_may_change

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.operators.key_selection import KeySelection

#: The number of keys whose receiver is cached.
_ROUTES: Final = 1 << 16
#: Ints within as many consecutive ones have their receivers looked up in a table.
_DENSE: Final = 1 << 16


class KeyRoutes:
    """The receivers of keys, cached for keys whose equality agrees with their encoding.

    That holds for Python's plain types and flat tuples of them. For all others only the encoding decides, because a
    user's class may have its own `__eq__`, and its objects may change. For a stream with more keys than the cache
    holds, all receivers are computed: a lookup in so large a dict costs as much, and takes up a worker's memory.
    """

    def __init__(self, parallelism: int, max_parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        #: The receivers by key group.
        self._receivers = [
            subtask_of_key_group(group, parallelism, max_parallelism) for group in range(max_parallelism)
        ]
        #: key -> receiver.
        self.known: dict[Any, int] = {}
        self.overflowed = False
        #: The receivers of consecutive ints, an array, and the first of these ints.
        self._dense: Any = ()
        self._dense_from = 0

    def of(self, records: list[Any], selection: KeySelection, iterate: Callable[[list[Any]], Any] = iter) -> list[int]:
        """Return the receivers of records.

        Args:
            records: The records.
            selection: Selects the keys.
            iterate: Returns the iterator over the records, see `CurrentRecord`.

        Raises:
            KeyEncodingError: A key has no encoding.
        """
        keys = selection.of(records, iterate)
        if not equal_as_encoded(keys):
            return self._compute(selection.owned(records, iterate) if any_may_change(keys) else keys)
        if self.overflowed:
            self.known.clear()
            return self._compute(keys)
        found = list(map(self.known.get, keys))
        return self._learned(keys, found) if None in found else cast("list[int]", found)

    def _learned(self, keys: list[Any], found: list[int | None]) -> list[int]:
        """Return the receivers of keys of which some are not cached, and cache these."""
        new = [key for key, receiver in zip(keys, found, strict=True) if receiver is None]
        receivers = self._compute(new)
        if len(self.known) + len(new) <= _ROUTES:
            self.known.update(zip(new, receivers, strict=True))
        else:
            self.overflowed = True
        following = iter(receivers)
        return [next(following) if receiver is None else receiver for receiver in found]

    def of_ints(self, numbers: Any) -> Any:
        """Return the receivers of keys that are an array of NumPy's, with the type int64."""
        import numpy as np

        return np.array(self._receivers, self.smallest_type)[int_key_groups(numbers, self._max_parallelism)]

    def of_dense_ints(self, numbers: Any) -> Any:
        """Return the receivers of ints, looked up by their values; None where these are too far apart for a table.

        Args:
            numbers: An array of NumPy's with the type int64, not empty.
        """
        import numpy as np

        least, greatest = int(numbers.min()), int(numbers.max())
        if greatest - least >= _DENSE:
            return None
        if not self._dense_from <= least <= greatest < self._dense_from + len(self._dense):
            if greatest - least > len(numbers):
                return None
            self._dense_from, self._dense = least, self.of_ints(least + np.arange(greatest - least + 1))
        return self._dense[numbers - self._dense_from]

    @property
    def smallest_type(self) -> str:
        """The name of NumPy's smallest type of ints in which a receiver has place."""
        import numpy as np

        return np.min_scalar_type(max(self._receivers)).name

    def _compute(self, keys: list[Any]) -> list[int]:
        receivers = self._receivers
        return [receivers[group] for group in key_groups(keys, self._max_parallelism)]
