"""The entry point of the ``penstock`` command."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Args:
        arguments: The words behind the command's name; those of the process when left out.
    """
    parser = argparse.ArgumentParser(prog="penstock", description="PyFlink's DataStream API on PySpark.")
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    parser.parse_args(arguments)
    parser.print_help()
    return 0
