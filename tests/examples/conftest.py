"""The modules of the flights example, which stand beside their script and not in a package."""

from __future__ import annotations

import sys
from pathlib import Path

FLIGHTS = Path(__file__).resolve().parents[2] / "examples" / "flights"
sys.path.insert(0, str(FLIGHTS))
