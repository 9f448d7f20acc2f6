"""Makes text from outside, such as names in a file or an answer, safe for terminals and logs."""

from __future__ import annotations

import re
from typing import Final

_BEYOND_ASCII: Final = "\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
#: Control characters of terminals, characters that change the direction of text, and lone surrogates. Line ends and
#: tabs stay.
_UNSAFE: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")
#: The same, and line ends and tabs.
_UNSAFE_IN_NAME: Final = re.compile(f"[\x00-\x1f\u2028\u2029{_BEYOND_ASCII}]")
_LONGEST_NAME: Final = 500
#: Behind a word, and not in a path.
_TWO_STOPS: Final = re.compile(r"(?<=[^\s./\\])\.\.(?=\s|$)")


def printable(text: str) -> str:
    r"""Return a text without commands to a terminal: control characters are written as Python's escapes.

    Example:
        >>> printable("a\x1b[2Jb\ud800\nc")
        'a\\x1b[2Jb\\ud800\nc'
    """
    return _UNSAFE.sub(_escaped, text)


def sentences(text: str) -> str:
    r"""Return printable sentences with one full stop each: a clause that is put into one may bring its own.

    Example:
        >>> sentences("It failed: the disk is full.. Look into /data/..\x1b")
        'It failed: the disk is full. Look into /data/..\\x1b'
    """
    return _TWO_STOPS.sub(".", printable(text))


def clean_name(name: str) -> str:
    r"""Return a name as it can be shown, stored and sent everywhere: on one line, printable, and not endless.

    Example:
        >>> clean_name("daily\norders \x1b[31m"), len(clean_name("x" * 3_000_000))
        ('daily\\norders \\x1b[31m', 500)
    """
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 1]}…"
    if name.isprintable() and name.isascii():
        return name
    return _UNSAFE_IN_NAME.sub(_escaped, name)


def _escaped(found: re.Match[str]) -> str:
    return ascii(found.group())[1:-1]
