"""The command ``penstock``, with Spark's part played in its own process.

Usage: python -m tests.search.penstock_without_spark DIRECTORY COMMAND...
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kit.without_spark import Cluster

from penstock._engine import launch
from penstock._engine.cli.main import main

if __name__ == "__main__":
    launch.submit = Cluster(Path(sys.argv.pop(1))).submit
    sys.exit(main())
