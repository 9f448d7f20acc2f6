"""Normalizes the paths that users give, so that a path means the same in every process.

Code that takes a path from a program, a command or a configuration calls `absolute_path` at once, because the working
directory may change or differ in workers, and ``~`` depends on the user. All other code uses the result. Hadoop's and
Flink's spellings of one path become one text, because paths are compared with each other and with those in checkpoints.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from penstock.errors import PathError

if TYPE_CHECKING:
    from os import PathLike

# A single letter is a drive of Windows. Except in "file:", a colon without a following slash is an ordinary character.
_SCHEME: Final = re.compile(r"(?i)(?=file:|[a-z][a-z0-9+.-]+:/)([a-z][a-z0-9+.-]+):")
_VARIABLE: Final = re.compile(r"\$(\w+|\{\w+\})(/|$)")
#: Hadoop's names for the clients of one store.
_SAME: Final = {"s3a": "s3", "s3n": "s3"}
#: The schemes whose URLs begin with a bucket.
_BUCKETS: Final = frozenset({"s3", "gs", "az", "abfs", "abfss"})
#: Schemes whose URLs contain more than a path.
_OTHERS_RULES: Final = frozenset({"http", "https"})
_GLOB: Final = re.compile(r"[*?\[]")


def scheme_of(path: str) -> str:
    """Return the scheme of a path in small letters, "" for a plain one.

    Example:
        >>> scheme_of("s3://bucket/a"), scheme_of("FILE:/a"), scheme_of("/a/b://c"), scheme_of("a:b")
        ('s3', 'file', '', '')
    """
    match = _SCHEME.match(path)
    return "" if match is None else match[1].lower()


def plain_path(path: str) -> str:
    """Return the normal form of a path or URL; a relative path stays relative.

    ``file:`` URLs become local paths, with their percent escapes decoded. In URLs of object stores ``%`` is an ordinary
    character, as in Hadoop and in the stores' own tools.

    Raises:
        PathError: The URL is invalid.

    Example:
        >>> [plain_path(url) for url in ("file:/data/a%20b", "file:///data", "file://localhost/data//x/")]
        ['/data/a b', '/data', '/data/x']
        >>> plain_path("s3a://bucket//in/2024/")
        's3://bucket/in/2024'
    """
    scheme = scheme_of(path)
    if "\0" in path:
        raise PathError(path, "it has a NUL, which no path can have")
    if scheme == "file":
        return _without_extra_slashes(_path_of_file_url(path))
    if not scheme:
        return _without_extra_slashes(path)
    _check_without_password(path)
    try:
        urlsplit(path)
    except ValueError as error:
        raise PathError(path, f"it is no URL: {error}") from None
    if scheme in _OTHERS_RULES:
        return path
    return _store_url(path, scheme)


def absolute_path(given: str | PathLike[str]) -> str:
    """Return the normal form of a path that was given in this process: absolute, or the URL of an object store.

    A ``~`` at the beginning is the home of this user. Variables are not filled in. Links stay as they are, so that one
    may be turned to another folder between two starts of a job.

    Args:
        given: A local path, relative to the working directory or absolute, or a URL.

    Raises:
        PathError: The path is invalid, or probably a mistake.
        TypeError: It is neither text nor a path.

    Example:
        >>> absolute_path("/data/./in/"), absolute_path("file:/data/in"), absolute_path("s3a://bucket/in")
        ('/data/in', '/data/in', 's3://bucket/in')
    """
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - programs are not all checked
        msg = f"A path is a str or a pathlib.Path, not {type(text).__name__} ({text!r})."
        raise TypeError(msg)
    _check_meant(text)
    path = plain_path(text)
    if scheme_of(path):
        return path
    try:
        local = Path(path).expanduser() if text.startswith("~") else Path(path)
        return without_steps_up(str(local.absolute()))
    except FileNotFoundError:
        raise PathError(text, "it is relative, and the working directory is gone") from None
    except RuntimeError:
        raise PathError(text, "there is no user of that name; write ./~… for a folder that is called so") from None


def file_url(path: str) -> str:
    """Return a local path as Flink writes it, ``file:/data/…``; `plain_path` gives it back. URLs stay as they are.

    Example:
        >>> file_url("/data/100%"), file_url("s3://bucket/x")
        ('file:/data/100%25', 's3://bucket/x')
    """
    if scheme_of(path):
        return path
    return f"file:{quote(os.fsencode(path), safe=_UNQUOTED)}"


#: Only characters with a meaning in URLs are escaped, so that paths stay readable.
_UNQUOTED: Final = "".join(map(chr, range(1, 128))).replace("%", "")


def real_path(path: str) -> str:
    """Return a path with its links resolved, so that two paths of one place are equal; URLs are unchanged."""
    return path if scheme_of(path) else os.path.realpath(path)


def above_glob(path: str) -> str:
    """Return the folder in which a glob begins; an existing path, and one without signs of a glob, is no glob.

    Example:
        >>> above_glob("/data/2024-*/orders"), above_glob("s3://bucket/in/*.csv"), above_glob("/data/in")
        ('/data', 's3://bucket/in', '/data/in')
    """
    match = _GLOB.search(path)
    if match is None or (not scheme_of(path) and os.path.lexists(path)):
        return path
    return path[: match.start()].rpartition("/")[0] or "/"


def _check_meant(text: str) -> None:
    if not text:
        raise PathError(text, "it is empty; write . for the working directory")
    if text != text.strip():
        raise PathError(text, "it begins or ends with white space; in a name that has some, write file:/…%20")
    if match := _VARIABLE.match(text):
        reason = (
            f"variables are not filled in; use os.path.expandvars(), or write ./{match[0]} for a folder of that name"
        )
        raise PathError(text, reason)


def _check_without_password(url: str) -> None:
    """Refuse a URL with a password: checkpoints, logs and REST have the paths that a job was given."""
    start, _, rest = url.partition("://")
    info, at, place = rest.partition("/")[0].rpartition("@")
    if at and ":" in info:
        reason = "it has a password, which a path would carry into checkpoints and logs; give the store's keys by "
        raise PathError(f"{start}://******@{place}", f"{reason}the configuration, such as s3.access-key")


def _path_of_file_url(url: str) -> str:
    """Return the path of a ``file:`` URL, literally but for percent escapes: ``?`` and ``#`` are signs of names."""
    rest = url[len("file:") :]
    if rest.startswith("//") and not rest.startswith("///"):
        host, slash, path = rest[2:].partition("/")
        if host.lower() not in {"localhost", "127.0.0.1"}:
            reason = f"it names the host {host!r}; a local path has three slashes, file:///…, or one, file:/…"
            raise PathError(url, reason)
        rest = slash + path
    if not rest.startswith("/"):
        raise PathError(url, "what follows file: is no absolute path; write file:/…, or a relative path without file:")
    return os.fsdecode(unquote_to_bytes(os.fsencode(rest)))


def _store_url(url: str, scheme: str) -> str:
    rest = url[len(scheme) + 1 :]
    scheme = _SAME.get(scheme, scheme)
    if not rest.startswith("//"):
        reason = f"it names no bucket; write {scheme}://bucket/…, as text: pathlib.Path takes one of the slashes away"
        raise PathError(url, reason)
    bucket, _, key = rest[2:].partition("/")
    if not bucket and scheme in _BUCKETS:
        raise PathError(url, f"it names no bucket; write {scheme}://bucket/…")
    names = [name for name in key.split("/") if name not in {"", "."}]
    if ".." in names:
        raise PathError(url, "it has a step up (..), which object stores do not know")
    return "/".join([f"{scheme}://{bucket}", *names])


def _without_extra_slashes(path: str) -> str:
    """Return a local path without ``//``, ``/./`` and slashes at its end; two slashes in front are one for Linux."""
    if not path:
        return path
    plain = str(Path(path))
    return f"/{plain.lstrip('/')}" if plain.startswith("//") and os.name != "nt" else plain


def without_steps_up(path: str) -> str:
    """Resolve ``..`` and the links before it, as the operating system does; later links stay."""
    parts = path.split("/")
    if ".." not in parts:
        return path
    behind = len(parts) - parts[::-1].index("..")
    above = "/".join(parts[:behind])
    if _GLOB.search(above):  # the folder is only known once the glob is listed
        return path
    return str(Path(os.path.realpath(above), *parts[behind:]))
