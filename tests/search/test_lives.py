"""Lives of a sink whose index changes at random moments: each document is there once, or the error names the change."""

from __future__ import annotations

import os
import random
from typing import Any

from tests.search.scripted import Fault, ScriptedCluster, numbered
from tests.search.test_sink import sink_into

from penstock.errors import ElasticsearchConnectorError
from penstock.testing.sink_run import SinkCheckpoint, SinkRun

LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "30"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
EPOCHS = 4
CLOSED, READ_ONLY, STRICT = "index_closed_exception", "cluster_block_exception", "strict_dynamic_mapping_exception"


class Life:
    """One sink without ids into an alias, and what happens to the index behind it."""

    def __init__(self, cluster: ScriptedCluster, draw: random.Random) -> None:
        self._cluster, self._draw = cluster, draw
        cluster.aliases["log"] = ["log-1"]
        self.gone: list[dict[str, Any]] = []
        #: The type of the error that a change leads to.
        self.says = ""

    @property
    def _index(self) -> str:
        return self._cluster.aliases["log"][-1]

    def change(self) -> None:
        """Change the index, or which index it is."""
        match self._draw.choice(["rolled over", "moved", "anew", "closed", "read-only", "mapping"]):
            case "rolled over":
                self._cluster.aliases["log"].append(f"log-{len(self._cluster.indices) + 2}")
            case "moved":
                self._cluster.aliases["log"][:] = [f"log-{len(self._cluster.indices) + 2}"]
            case "anew":
                self.gone += self._cluster.indices.pop(self._index, {}).values()
            case "closed":
                self._block(400, CLOSED)
            case "read-only":
                self._block(403, READ_ONLY)
            case _:
                self._block(400, STRICT)

    def _block(self, status: int, kind: str) -> None:
        self._cluster.blocked[self._index] = status, kind
        self.says = kind

    def commit(self, run: SinkRun, checkpoint: SinkCheckpoint) -> None:
        """Commit until it is done; what an operator can mend is mended behind the first error."""
        for tries in range(4):
            told = ""
            try:
                run.commit(checkpoint, may_be_committed=tries > 0)
            except ElasticsearchConnectorError as error:
                told = str(error)
            if not told:
                self.says = ""
                return
            assert (self.says and self.says in told) or "status 400 (trouble" in told, told
            self._cluster.blocked.clear()
            self._cluster.script.clear()
            if self._draw.random() < 0.3:
                self._cluster.aliases["log"].append(f"log-{len(self._cluster.indices) + 2}")
        raise AssertionError(told)

    def live(self) -> list[dict[str, Any]]:
        """Return all documents, those of deleted indices too."""
        run = SinkRun(sink_into(self._cluster.url, "log"))
        change = self._draw.randrange(EPOCHS)
        for epoch in range(EPOCHS):
            early = self._draw.random() < 0.5
            if epoch == change and early:
                self.change()
            checkpoint = run.epoch(list(numbered(20, 20 * epoch)))
            if epoch == change and not early:
                self.change()
            if self._draw.random() < 0.3:
                self._cluster.script = [*[None] * self._draw.randrange(4), Fault(status=400)]
            self.commit(run, checkpoint)
        run.close()
        return [*self.gone, *(one for index in self._cluster.indices.values() for one in index.values())]


def test_lives_of_sinks_whose_index_changes_lose_and_repeat_no_document() -> None:
    for number in range(LIVES):
        with ScriptedCluster() as cluster:
            found = Life(cluster, random.Random(SEED + number)).live()
        wanted = list(numbered(20 * EPOCHS))
        assert sorted(found, key=repr) == sorted(wanted, key=repr), f"PENSTOCK_TEST_SEED={SEED + number}"
