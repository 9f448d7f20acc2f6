"""Makes the pictures of the demo from what it wrote: `python docs/images/make.py [RESULTS]`, after `make demo`."""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from penstock._demo.report import chart, read_report, show

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

results = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "out" / "flights" / "results"
report = read_report(results)
(HERE / "delay-by-hour.svg").write_text(chart(report), encoding="utf-8")

console = Console(record=True, width=84, force_terminal=True, color_system="truecolor", file=io.StringIO())
show(report, console)
terminal = console.export_svg(title="penstock demo", theme=SVG_EXPORT_THEME)
# Rich lets the picture load its font from the network; the reader's own monospaced one will do.
terminal = re.sub(r"@font-face \{.*?\}", "", terminal, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
(HERE / "demo.svg").write_text(terminal, encoding="utf-8")
