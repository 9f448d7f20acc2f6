"""Checks names that identify states, side outputs, accumulators and operators."""

from __future__ import annotations

from penstock._errors.text import clean_name
from penstock.errors import UnsupportedOperationError


def checked_name(name: str, called: str, what: str) -> str:
    r"""Return a valid name: it can be displayed, stored and sent without changes.

    Args:
        name: The name.
        called: The method that the program called.
        what: The kind of the named thing, with its article.

    Raises:
        UnsupportedOperationError: It is no text, has line breaks or other characters that cannot be shown, or more
            than 500.

    Example:
        >>> checked_name("a\nb", "uid", "a uid")
        Traceback (most recent call last):
        penstock.errors.UnsupportedOperationError: uid('a\\nb') is not supported: a uid is a text of at most 500 ...
    """
    is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance] - a user's call
    if is_text and name == clean_name(name):
        return name
    shown = clean_name(name)[:100] if is_text else name
    reason = f"{what} is a text of at most 500 characters, all of which can be shown"
    raise UnsupportedOperationError(f"{called}({shown!r})", reason)
