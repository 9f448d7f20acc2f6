"""The options by which connectors reach object stores: those of the job whose code runs."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
#: Set by the driver and by tasks, because connectors get paths only, which pass through user code.
_options: Final[ContextVar[Mapping[str, str]]] = ContextVar("penstock-store-options", default=_NONE)


def store_options() -> Mapping[str, str]:
    """Return the options of the job whose code runs here; none outside of jobs."""
    return _options.get()


@contextmanager
def reaching_stores_by(options: Mapping[str, str] | None) -> Generator[None]:
    """Let connectors use these options for object stores; they may contain secrets.

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
