"""Iterators that functions of users read from, and whose errors must not be lost there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class FirstError(Generic[T]):
    """An iterator that raises its first error again whenever it is asked for more.

    Otherwise a function that catches the error would take it for the end of its records, and so would a later reader.

    Example:
        >>> numbers = FirstError(1 // n for n in (1, 0, 2))
        >>> next(numbers), type(numbers.error)
        (1, <class 'NoneType'>)
        >>> for _ in range(2):
        ...     try:
        ...         next(numbers)
        ...     except ZeroDivisionError as error:
        ...         print(error is numbers.error)
        True
        True
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self.error: BaseException | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self.error is not None:
            raise self.error
        try:
            return next(self._items)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise
