"""``bench``: beside PyFlink, Bytewax and bare PySpark; ``bench nexmark``; or one of our own figures, by its name."""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
#: What is measured when it is named.
FIGURES = (
    *("epoch", "state", "savepoint", "stop", "latency", "rest", "declared_types", "partitions", "recovery"),
    *("kafka", "lake", "endurance", "slots", "cluster", "large_state"),
)

if __name__ == "__main__":
    program = HERE / "run.py"
    if len(sys.argv) > 1 and sys.argv[1] in FIGURES:
        program = HERE / f"{sys.argv.pop(1)}.py"
    elif sys.argv[1:2] == ["nexmark"]:
        program = HERE / sys.argv.pop(1) / "run.py"
    sys.argv[0] = str(program)
    sys.path[0] = str(program.parent)  # as for a program that is started by its path
    runpy.run_path(str(program), run_name="__main__")
