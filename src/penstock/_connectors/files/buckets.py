"""Checks the names of the file sink's buckets: the target must allow them, and readers of the folder must see them.

All names of a block are checked before any record is written. A refused name would otherwise be an error of the
operating system in the middle of an epoch, a folder elsewhere, or files that every reader skips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._connectors.files.filesystem import is_hidden
from penstock.common.paths import scheme_of
from penstock.errors import BucketNameError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The longest name on the file systems of Linux, macOS and Windows, in bytes.
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4095
#: The longest key in S3, Google Cloud Storage and Azure, in bytes.
_LONGEST_KEY: Final = 1024
#: Stores whose names must not end in a dot.
_NO_DOT_BEHIND: Final = frozenset({"az", "adl", "abfs", "abfss"})
_WAY_OUT: Final = "let the bucket assigner return another"


def folder_of(base_path: str, bucket_id: str) -> str:
    """Return the folder of a bucket; repeated slashes and single dots are ignored, as on disks."""
    names = [name for name in bucket_id.split("/") if name not in {"", "."}]
    return "/".join([base_path.rstrip("/"), *names]) or "/"


def check_buckets(base_path: str, bucket_ids: Iterable[str], longest_file_name: int) -> None:
    """Check the ids of buckets.

    Args:
        base_path: The sink's folder.
        bucket_ids: The ids from the bucket assigner.
        longest_file_name: The length in bytes of the longest file name in a bucket.

    Raises:
        BucketNameError: One of them is not allowed.
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
