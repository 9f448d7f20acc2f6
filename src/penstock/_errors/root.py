"""The root of all errors, and the two groups without members."""

from __future__ import annotations


class PenstockError(Exception):
    """The root of all errors that Penstock raises on purpose.

    Example:
        >>> from penstock.errors import ConfigurationError
        >>> try:
        ...     raise ConfigurationError("parallelism.default", "many", "it is not a whole number")
        ... except PenstockError as error:
        ...     print(error)
        parallelism.default cannot be 'many': it is not a whole number.
    """


class RetryableError(PenstockError):
    """Something outside was not available; the same call may succeed later."""


class InternalError(PenstockError):
    """An invariant of Penstock does not hold: a bug to report, with this text and the log."""
