"""Charsets, and the byte order marks at the beginning of files."""

from __future__ import annotations

import codecs
import io
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._formats.parts import InputFile

# The longer ones first: the mark of UTF-32 begins with that of UTF-16.
_MARKS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32LE",
    codecs.BOM_UTF32_BE: "UTF-32BE",
    codecs.BOM_UTF16_LE: "UTF-16LE",
    codecs.BOM_UTF16_BE: "UTF-16BE",
    codecs.BOM_UTF8: "UTF-8",
}
_OWN_MARKS: Final = {
    "utf-8": (codecs.BOM_UTF8,),
    "utf-8-sig": (codecs.BOM_UTF8,),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-16-le": (codecs.BOM_UTF16_LE,),
    "utf-16-be": (codecs.BOM_UTF16_BE,),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-32-le": (codecs.BOM_UTF32_LE,),
    "utf-32-be": (codecs.BOM_UTF32_BE,),
}
# Their decoders consume the mark.
_DECODED_WITH_MARK: Final = {"utf-16", "utf-32", "utf-8-sig"}
# A shift at the beginning of the file applies to all of its lines.
_WITH_A_HEADER: Final = {"iso2022_kr"}
_WAY_OUT: Final = (
    "give the file's charset to text_line_format(), such as UTF-16LE or UTF-16BE for files without a mark (CSV is "
    "always UTF-8), or repair the file"
)


def canonical(charset: str) -> str:
    """Return Python's name of a charset.

    Raises:
        LookupError: The name is unknown, or is no charset.
    """
    name = codecs.lookup(charset).name
    "\n".encode(name)
    return name


def lines_stand_alone(charset: str) -> bool:
    """Tell whether a line feed is one byte that occurs in no other character, so that lines are decoded one by one."""
    return "\r\n".encode(charset) == b"\r\n" and charset not in _WITH_A_HEADER


def skip_mark(file: InputFile, charset: str, head: bytes) -> int:
    """Return the length of a file's byte order mark; 0 without one.

    Args:
        file: The file.
        charset: What it should be in.
        head: Its first four bytes.

    Raises:
        SourceFileError: It is the mark of another charset.
    """
    own = _OWN_MARKS.get(charset)
    if own is None:
        return 0
    for mark in own:
        if head.startswith(mark):
            return len(mark)
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            reason = f"it begins with the byte order mark of {name}, and should be {charset}; {_WAY_OUT}"
            raise SourceFileError(file.path, reason)
    return 0


def wrong_charset(file: InputFile, charset: str, error: UnicodeError, offset: int) -> SourceFileError:
    """Return the error for bytes that mean nothing in a charset.

    Args:
        file: The file.
        charset: What it should be in.
        error: The decoder's error.
        offset: The position of the decoded bytes in the file.
    """
    if isinstance(error, UnicodeDecodeError):
        return SourceFileError(file.path, f"its bytes from {offset + error.start} on are no {charset}; {_WAY_OUT}")
    return SourceFileError(file.path, f"it is no {charset} ({error}); {_WAY_OUT}")


def decoded(file: InputFile, charset: str, chunks: Iterable[bytes], errors: str) -> Iterator[str]:
    r"""Decode a file from its beginning on, piece by piece; lines end with ``\n`` in what it gives.

    Args:
        file: The file.
        charset: What it is in.
        chunks: Its bytes; in the first chunk there are at least four, or all.
        errors: What the decoder does about other bytes.

    Raises:
        SourceFileError: The bytes are in another charset.
    """
    decoder = codecs.getincrementaldecoder(charset)(errors)
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    offset = 0
    for data, final in chain(zip(chunks, repeat(False)), [(b"", True)]):
        mark = skip_mark(file, charset, data[:4]) if offset == 0 and charset not in _DECODED_WITH_MARK else 0
        kept = len(decoder.getstate()[0])
        try:
            text = decoder.decode(data[mark:], final)
        except UnicodeError as error:
            raise wrong_charset(file, charset, error, offset + mark - kept) from None
        offset += len(data)
        yield line_ends.decode(text, final)
