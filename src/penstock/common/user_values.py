"""Encodes what user code fills in, for a log, an error or another process: it takes texts and numbers of every kind.

User code may give texts with lone surrogates or of 50 MB, integers beyond 64 bits, subclasses of str and int, and
objects whose own methods raise anything. Nothing here raises, whatever it is given; Ctrl-C passes.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from penstock.common.interrupts import is_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: The longest text of user code in a log line, a failure or a note, in bytes of UTF-8.
LONGEST_TEXT: Final = 64 << 10

#: The ends of Flink's ``long``.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 200
_REPR.maxtuple = _REPR.maxlist = _REPR.maxdict = 10

#: The encodings of types that MessagePack and JSON take, for subclasses of theirs, without calling methods of those.
_PLAIN: Final[tuple[tuple[type[Any], Callable[[Any], Any]], ...]] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, lambda data: b"".join((data,))),
)


def safely(run: Callable[[], T], default: Callable[[BaseException], T]) -> T:
    """Return the result of a call that may run user code, or what stands for it where that raises.

    Example:
        >>> safely(lambda: 1 // 0, lambda error: -1)
        -1
    """
    try:
        return run()
    except BaseException as error:
        if is_interrupt(error):
            raise
        return default(error)


def short_repr(value: Any) -> str:
    """Return a value's repr, shortened; never raises."""
    name: str = type(value).__name__
    return safely(lambda: _REPR.repr(value), lambda error: f"<{name} whose repr raises {type(error).__name__}>")


def value_text(value: Any) -> str:
    """Return a value as text, also where its own method fails: so do integers of more than 4,300 digits."""
    return safely(lambda: str(value), lambda _: short_repr(value))


def begin_of(value: Any) -> str:
    """Return the first 200 characters of a value's repr, in which a dict has its own order; never raises."""
    return safely(lambda: f"{value!r:.200}", lambda _: short_repr(value))


def error_line(error: BaseException) -> str:
    """Return the class of an error and its text.

    Example:
        >>> error_line(ValueError("bad"))
        'ValueError: bad'
    """
    return log_text(f"{type(error).__name__}: {error_text(error)}")


def error_text(error: BaseException) -> str:
    """Return the text of an error, also where its own method fails."""
    return safely(lambda: str(error), lambda raised: f"<its text raises {type(raised).__name__}>")


def log_text(text: str) -> str:
    r"""Return a text for a log or an error: lone surrogates are escaped, and what is beyond 64 KB is left out.

    Example:
        >>> log_text("odd \ud83d"), log_text("x" * 3_000_000)[65_500:]
        ('odd \\ud83d', 'xxxxxxx… (of 3,000,000 characters)')
    """
    if type(text) is not str:
        text = str.__str__(text)
    if len(text) <= LONGEST_TEXT and text.isascii():
        return text
    data = text[: LONGEST_TEXT + 1].encode("utf-8", "backslashreplace")
    if len(data) <= LONGEST_TEXT:
        return data.decode()
    end = f"… (of {len(text):,} characters)".encode()
    return data[: LONGEST_TEXT - len(end)].decode("utf-8", "ignore") + end.decode()


def in_64_bits(number: int) -> int:
    """Return an integer as a message can hold it: beyond 64 bits it becomes the nearest one within.

    Example:
        >>> in_64_bits(2**70), in_64_bits(-(2**70)), in_64_bits(True)
        (9223372036854775807, -9223372036854775808, 1)
    """
    return max(_LEAST, min(int.__int__(number), _MOST))


def encoded(value: object, encode: Callable[[Any], bytes]) -> bytes:
    """Return a message's bytes; what its format does not take is made plain: lone surrogates are escaped.

    Args:
        value: The message: texts, numbers, bytes, lists, maps, and classes of msgspec or dataclasses of these.
        encode: Writes it; as most messages are plain already, it is tried first.
    """
    try:
        return encode(value)
    except (TypeError, UnicodeEncodeError):
        return encode(_plain(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_plain_object)))


def _plain_object(value: Any) -> object:
    for base, plain in _PLAIN:
        if issubclass(type(value), base):
            return plain(value)
    msg = f"a message cannot hold an object of type {type(value)}"
    raise TypeError(msg)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value).encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_plain(name): _plain(item) for name, item in cast("dict[Any, Any]", value).items()}
    return value
