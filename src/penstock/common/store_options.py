"""How connectors reach object stores: by the options of the job whose code runs."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
#: The driver and the tasks set them: connectors get paths alone, and pass them through user code.
_options: Final[ContextVar[Mapping[str, str]]] = ContextVar("penstock-store-options", default=_NONE)


def store_options() -> Mapping[str, str]:
    """Return the options of the job whose code runs here; none outside of jobs."""
    return _options.get()


@contextmanager
def reaching_stores_by(options: Mapping[str, str] | None) -> Generator[None]:
    """Have connectors reach object stores by some options; they may be secret.

    Args:
        options: As of `storage_options`.

    Example:
        >>> with reaching_stores_by({"s3.region": "eu-west-1"}):
        ...     store_options()["s3.region"]
        'eu-west-1'
        >>> dict(store_options())
        {}
    """
    before = _options.get()
    _options.set(options or _NONE)
    try:
        yield
    finally:  # not by a token: a generator may be closed in another context
        _options.set(before)
