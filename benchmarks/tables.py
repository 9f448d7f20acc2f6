"""The results as a table on the terminal, as Markdown and as JSON."""

import json
from collections.abc import Callable
from pathlib import Path

from results import Measured, Pair, Report, Spread
from rich.console import Console
from rich.table import Table
from workloads import MEMORY_BAR_MIB

COLUMNS = ("Workload", "System", "Records", "Raw /s", "Slope /s", "Penstock ×", "Bar", "Load")  # noqa: RUF001
NUMERIC_FROM = 2


def print_table(report: Report, console: Console) -> None:
    """Print the table of one call."""
    table = Table(title=_title(report), caption=_caption(report))
    for index, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if index >= NUMERIC_FROM else "left")
    before = ""
    for title, *cells in _rows(report):
        if title != before:
            table.add_section()
        table.add_row("" if title == before else title, *cells)
        before = title
    console.print(table)


def markdown(report: Report) -> str:
    """Return the same as a Markdown table, with the machine above and the notes below it."""
    lines = [_title(report), ""]
    lines += [f"- {name}: {value}" for name, value in report.machine.items()]
    lines += ["", "| " + " | ".join(COLUMNS) + " |", "| " + " | ".join(["---"] * len(COLUMNS)) + " |"]
    lines += ["| " + " | ".join(row) + " |" for row in _rows(report)]
    lines += ["", _caption(report), ""]
    if report.tuning:
        lines += ["Bytewax, small run by batch size and workers, start-up included:", ""]
        lines += ["| Workload | " + " | ".join(next(iter(report.tuning.values()))) + " |"]
        lines += ["| --- |" + " --- |" * len(next(iter(report.tuning.values())))]
        lines += [f"| {name} | " + " | ".join(rates.values()) + " |" for name, rates in report.tuning.items()]
        lines += [""]
    return "\n".join(lines)


def write_json(report: Report, path: Path) -> None:
    """Write every single run."""
    document = {
        "machine": report.machine,
        "quick": report.quick,
        "tuning": report.tuning,
        "memory": None
        if report.memory is None
        else {name: getattr(report.memory, name) for name in ("records", "private", "anonymous", "rss")},
        "measured": [
            {
                "workload": each.workload.name,
                "system": each.label,
                "problem": each.problem,
                "ratios": each.ratios,
                "bar": each.bar,
                "pairs": [_pair(pair) for pair in each.pairs],
                "penstock": [_pair(pair) for pair in each.penstock],
            }
            for each in report.measured
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def _pair(pair: Pair) -> dict[str, object]:
    runs = [
        [run.records, round(run.seconds, 3), round(run.load, 2), round(run.processor_seconds, 1)] for run in pair.runs
    ]
    return {"records_seconds_load_processor": runs, "raw": round(pair.raw), "slope": pair.slope and round(pair.slope)}


def _title(report: Report) -> str:
    return f"make bench, {report.machine['date']}" + (" (quick: a smoke run, not figures)" if report.quick else "")


def _caption(report: Report) -> str:
    text = (
        f"Median (least to greatest) of {report.rounds} rounds. Raw: the larger run from process start to exit. "
        "Slope: larger minus smaller run, so without start-up. Ratios: slope by slope, Penstock run just "
        "before its competitor. Every result was compared with the truth. "
        "Load: greatest load average at the start of a run."
    )
    if report.memory:
        private, anonymous = report.memory.private / 2**20, report.memory.anonymous / 2**20
        text += (
            f" Memory of (c) at {report.memory.records:,} records, peak of the largest Python worker: "
            f"{private:.0f} MiB private, {anonymous:.0f} MiB of it anonymous (bar {MEMORY_BAR_MIB} MiB: "
            f"{'met' if private <= MEMORY_BAR_MIB else 'MISSED'})."
        )
    return text


def _rows(report: Report) -> list[tuple[str, ...]]:
    return [_row(each) for each in report.measured]


def _row(each: Measured) -> tuple[str, ...]:
    head = (f"({each.workload.letter}) {each.workload.title}", each.label)
    if not each.pairs:
        return (*head, "", "", each.problem, "", "", "")
    slopes = [pair.slope for pair in each.pairs if pair.slope]
    ratio, bar = "", "" if each.bar is None else f"≥ {each.bar:g}"
    if each.ratios:
        spread = Spread.of(each.ratios)
        ratio = _range(spread, lambda number: f"{number:.1f}")
        bar += "" if each.bar is None else (" met" if spread.middle >= each.bar else " MISSED")
    return (
        *head,
        _short(each.pairs[0].large.records),
        _short(Spread.of([pair.raw for pair in each.pairs]).middle),
        (_range(Spread.of(slopes), _short) if slopes else "") + (f" {each.problem}" if each.problem else ""),
        ratio,
        bar,
        f"{each.load:.1f}",
    )


def _range(spread: Spread, text: Callable[[float], str]) -> str:
    if spread.least == spread.most:
        return text(spread.middle)
    return f"{text(spread.middle)} ({text(spread.least)} to {text(spread.most)})"


def _short(number: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"
