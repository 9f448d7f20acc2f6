"""Several processes that work on one local version at once, some of them killed."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.state.checkpoints import ABSENT, Checkpoints, contents, write_all

import penstock

#: Follows the lineage epoch by epoch, as fast as it can, and moves the local version at each.
FOLLOWER = """
import pickle, sys
from pathlib import Path
from typing import Any
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend
from penstock.errors import StaleAttemptError
files, lineage = pickle.load(open(sys.argv[1], "rb"))
sys.stdin.readline()
store = None
for end in range(1, len(lineage) + 1):
    store = store or KeyedState(LocalBackend(Path(sys.argv[2]), range(128), 128, 1), lambda handle: files[handle.path])
    try:
        store.catch_up(lineage[:end])
    except StaleAttemptError:
        store = None
        continue
    try:
        found = dict(store.table("count").pane().items())
    except StaleAttemptError:
        store = None
        continue
    assert found == files["models"][end - 1], end
    store.delta(999, end)
    print(end, flush=True)
"""

#: Dies by SIGKILL while it writes.
VICTIM = """
import os, pickle, signal, sys
from pathlib import Path
from typing import Any
from penstock._engine.state.local import local_version
from penstock._engine.state.keyed_state import KeyedState
from penstock._engine.state.local.local_backend import LocalBackend
files, lineage = pickle.load(open(sys.argv[1], "rb"))
store = KeyedState(LocalBackend(Path(sys.argv[2]), range(128), 128, 1), lambda handle: files[handle.path])
store.catch_up(lineage[:5])
store.delta(999, 1)
local_version.changes = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store.catch_up(lineage[:6])
"""


class History:
    """Epochs of one subtask, in a file for other processes."""

    def __init__(self, tmp_path: Path, epochs: int) -> None:
        self.checkpoints, self.directory, self.path = Checkpoints(), tmp_path / "state", tmp_path / "history"
        source = random.Random(5)
        memory = self.checkpoints.memory_store()
        models: list[Any] = []
        for _ in range(epochs):
            memory.catch_up(self.checkpoints.lineage)
            changes = {source.randrange(40): source.choice([ABSENT, 1, 2, 3]) for _ in range(20)}
            write_all(memory, changes | {"always": 1})
            self.checkpoints.end_epoch(memory)
            models.append({normal: value for (normal, _), value in contents(memory).items()})
        self.models = models
        self.path.write_bytes(pickle.dumps((self.checkpoints.files | {"models": models}, self.checkpoints.lineage)))

    def start(self, program: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", program, str(self.path), str(self.directory)],
            env={**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def state_after(self, epochs: int) -> dict[Any, Any]:
        """Return what the local version alone says."""
        self.checkpoints.reads.clear()
        store = self.checkpoints.keyed_store(self.directory)
        store.catch_up(self.checkpoints.lineage[:epochs])
        assert self.checkpoints.reads == []
        return {normal: value for (normal, _), value in contents(store).items()}


@pytest.mark.fault
def test_processes_that_move_one_local_version_at_once_never_see_a_wrong_state(tmp_path: Path) -> None:
    history = History(tmp_path, 100)
    followers = [history.start(FOLLOWER) for _ in range(4)]
    for follower in followers:
        assert follower.stdin is not None
        follower.stdin.write("go\n")
        follower.stdin.flush()
    victim = followers[0]
    assert victim.stdout is not None
    victim.stdout.readline()
    os.kill(victim.pid, signal.SIGKILL)
    for follower in followers:
        with follower:
            follower.communicate()
    assert [follower.returncode for follower in followers] == [-signal.SIGKILL, 0, 0, 0]
    assert history.state_after(100) == history.models[-1]


@pytest.mark.fault
def test_process_killed_while_it_writes_leaves_the_version_from_before(tmp_path: Path) -> None:
    history = History(tmp_path, 6)
    with history.start(VICTIM) as victim:
        victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    assert history.state_after(5) == history.models[4]
