"""A driver on a cluster: one session, and programs that run in it one after the other, each as a main script.

Usage: driver.py MASTER

Reads requests from the standard input, JSON line by line, and answers each with a line on the standard output. What
programs print goes to the standard error.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from pyspark.sql import SparkSession

#: After this time a session has stopped.
_END_S: Final = 20


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = SparkSession.builder.master(sys.argv[1]).getOrCreate()
    requests: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    while line := requests.get():
        answers.write(json.dumps(_answer(**json.loads(line))) + "\n")
        answers.flush()
    session.stop()


def _receive(requests: SimpleQueue[str]) -> None:
    """Pass requests on; when the tests have ended, end this process, whatever its program does."""
    for line in sys.stdin:
        requests.put(line)
    requests.put("")
    time.sleep(_END_S)
    os._exit(1)


def _answer(program: str, arguments: list[str], variables: dict[str, str], path: list[str]) -> dict[str, Any]:
    """Run a program with more variables and more entries of sys.path, and tell how it ended."""
    before, entries, modules = dict(os.environ), list(sys.path), set(sys.modules)
    os.environ.update(variables)
    sys.path[:0] = [str(Path(program).parent), *path]
    sys.argv = [program, *arguments]
    started = time.monotonic()
    try:
        found = runpy.run_path(program, run_name="__main__")
        ended: dict[str, Any] = {"result": found.get("result")}
    except Exception as error:  # noqa: BLE001 - the test looks at it
        ended = {"error": type(error).__name__, "text": str(error)}
    finally:
        sys.path[:] = entries
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        for name in sys.modules.keys() - modules:  # modules beside a program are its own
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(Path(program).parent)):
                del sys.modules[name]
    return {**ended, "seconds": time.monotonic() - started}


if __name__ == "__main__":
    main()
