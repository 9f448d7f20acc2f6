"""Which names a bucket of the file sink can have: those that the place can hold, and that readers of the folder see.

They are looked at before anything of a block of records is written. What is refused here would otherwise be an error of
the operating system in the midst of an epoch, a folder elsewhere, or files that every reader passes over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._connectors.files.filesystem import is_hidden
from penstock.common.paths import scheme_of
from penstock.errors import BucketNameError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Bytes of a name on the file systems of Linux, macOS and Windows, and of all names of a path.
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4095
#: Bytes of a key in S3, Google Cloud Storage and Azure.
_LONGEST_KEY: Final = 1024
#: Stores whose names must not end in a dot.
_NO_DOT_BEHIND: Final = frozenset({"az", "adl", "abfs", "abfss"})
_WAY_OUT: Final = "let the bucket assigner return another"


def folder_of(base_path: str, bucket_id: str) -> str:
    """Return the folder of a bucket; slashes too many and dots between them mean nothing, as on disks."""
    names = [name for name in bucket_id.split("/") if name not in {"", "."}]
    return "/".join([base_path.rstrip("/"), *names]) or "/"


def check_buckets(base_path: str, bucket_ids: Iterable[str], longest_file_name: int) -> None:
    """Make sure that buckets can be.

    Args:
        base_path: The sink's folder.
        bucket_ids: What the bucket assigner has returned.
        longest_file_name: Bytes of the longest name of a file in there.

    Raises:
        BucketNameError: One of them cannot.
    """
    for bucket_id in bucket_ids:
        reason = _flaw(base_path, bucket_id, longest_file_name)
        if reason is not None:
            shown = f"{bucket_id!r:.60}"
            raise BucketNameError(base_path, f"{reason}; {_WAY_OUT}", shown)


def _flaw(base_path: str, bucket_id: object, longest_file_name: int) -> str | None:
    if not isinstance(bucket_id, str):
        return f"it is of type {type(bucket_id).__name__}, and the name of a folder is text"
    if bucket_id.startswith("/"):
        return "it is an absolute path, which is not below the sink's"
    try:
        folder = folder_of(base_path, bucket_id).encode()
    except UnicodeEncodeError:
        return "it has a half of a surrogate pair, which UTF-8 does not have"
    scheme = scheme_of(base_path)
    flaw = next((flaw for name in bucket_id.split("/") if (flaw := _flaw_of_name(name, scheme)) is not None), None)
    if flaw is not None:
        return flaw
    longest = _LONGEST_PATH if not scheme else _LONGEST_KEY + len(base_path.split("/")[2]) + len(f"{scheme}:///")
    if len(folder) + 1 + longest_file_name > longest:
        return f"its path has {len(folder)} bytes, with a file's name in it more than the {longest} that can be"
    return None


def _flaw_of_name(name: str, scheme: str) -> str | None:
    if name == "..":
        return "with its step up it is not below the sink's path"
    if is_hidden(name) and name != ".":
        return (
            f"readers of a folder pass over names that begin with {name[0]!r}, so that its records would be in no input"
        )
    if "\0" in name or (scheme and any(sign < " " or sign == "\x7f" for sign in name)):
        return "it has a control character, which the place does not allow"
    if scheme in _NO_DOT_BEHIND and name.endswith("."):
        return "a name in it ends in a dot, which the store does not allow"
    length = len(name.encode())
    return None if scheme or length <= _LONGEST_NAME else f"a name in it has {length} bytes, and {_LONGEST_NAME} can be"
