"""What a stranger would have others unpickle: it leaves a trace."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class _Trace:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


def crafted_pickle(marker: Path) -> bytes:
    """Return a pickle that makes a file when it is decoded."""
    return pickle.dumps(_Trace(marker))
