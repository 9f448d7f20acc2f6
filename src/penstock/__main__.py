"""``python -m penstock``: the command ``penstock``."""

import sys

from penstock._engine.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
