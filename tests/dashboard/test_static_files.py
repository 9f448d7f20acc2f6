"""The pages need nothing but this server; that they are in what users install shows `tests/release`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "penstock" / "_engine" / "rest" / "static"


def test_no_file_of_the_pages_names_another_server() -> None:
    for path in STATIC.rglob("*.*"):
        addresses = set(re.findall(r"https?://[^\s\"']+", path.read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path
