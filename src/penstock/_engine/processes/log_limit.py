"""Limits the log of a detached program to two files of a maximum size."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Final

#: The variable by which a process knows its log file.
LOG_VARIABLE: Final = "PENSTOCK_DETACHED_LOG"
#: A larger log becomes the one before it.
_MOST_BYTES: Final = 64 << 20
_LOOK_S: Final = 5.0


def keep_own_log_small() -> None:
    """Watch the log of this process from now on if it is detached; its child processes do not watch it."""
    log = os.environ.pop(LOG_VARIABLE, None)
    if log is not None:
        threading.Thread(target=_watch, args=(Path(log),), name="penstock-log", daemon=True).start()


def _watch(log: Path) -> None:
    while True:
        time.sleep(_LOOK_S)
        with contextlib.suppress(OSError):  # a full disk, or another process deletes files there
            limit_log(1, log)


def limit_log(descriptor: int, log: Path, most_bytes: int = _MOST_BYTES) -> bool:
    """Copy a log that has grown too large to the previous log, and empty it; tell whether that was done.

    The file itself stays, because Spark's processes have it open and append to it. Lines that are written between the
    end of the copy and the truncation are lost.

    Args:
        descriptor: The open file.
        log: Its path; nothing is done if the path now names another file, which a log rotation may have made.
        most_bytes: Its maximum size in bytes.
    """
    size = os.fstat(descriptor).st_size
    if size <= most_bytes or not os.path.samestat(os.fstat(descriptor), log.stat()):
        return False
    before, draft = log.with_name(f"{log.name}.1"), log.with_name(f".{log.name}.1")
    try:
        with log.open("rb") as source, open(draft, "wb", opener=_private) as copy:
            source.seek(max(0, size - most_bytes))  # it may have grown by more than that since the last look
            shutil.copyfileobj(source, copy, 1 << 20)
        draft.replace(before)
    finally:
        draft.unlink(missing_ok=True)
        os.truncate(log, 0)
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
