"""The log of a detached program: two files of a limited size, whatever the program and its Spark print for months."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Final

#: Names the log to the process that writes it.
LOG_VARIABLE: Final = "PENSTOCK_DETACHED_LOG"
#: A larger log becomes the one before it.
_MOST_BYTES: Final = 64 << 20
_LOOK_S: Final = 5.0


def keep_own_log_small() -> None:
    """Watch the log of this process from now on where it is detached; its own children do not."""
    log = os.environ.pop(LOG_VARIABLE, None)
    if log is not None:
        threading.Thread(target=_watch, args=(Path(log),), name="penstock-log", daemon=True).start()


def _watch(log: Path) -> None:
    while True:
        time.sleep(_LOOK_S)
        with contextlib.suppress(OSError):  # a full disk, or another process deletes files there
            limit_log(1, log)


def limit_log(descriptor: int, log: Path, most_bytes: int = _MOST_BYTES) -> bool:
    """Empty a log that has grown too large, and keep what was in it as the one before; tell whether that was done.

    The file stays the same, because Spark's processes have it open, too, and all of them append to it. What is written
    in the moment between the end of the copy and the cut is lost.

    Args:
        descriptor: The open file.
        log: Its path; nothing is done where that is another file by now, as a tool for logs may have made it.
        most_bytes: How large it may be.
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
