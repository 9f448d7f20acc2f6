"""Names by which a program finds something again: states, side outputs, accumulators, operators."""

from __future__ import annotations

from penstock._errors.text import clean_name
from penstock.errors import UnsupportedOperationError


def checked_name(name: str, called: str, what: str) -> str:
    r"""Return a name that can be shown, stored and sent everywhere as it is; another one would be two names.

    Args:
        name: The name.
        called: What the program has called with it.
        what: What has the name, with its article.

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
