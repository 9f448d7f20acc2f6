"""Compare Penstock with PyFlink, Bytewax, bare PySpark and plain Python on the same jobs: see README.md here.

python benchmarks/run.py                     everything, some hours on two cores
python benchmarks/run.py --quick             every program once with few records, about ten minutes after set-up
python benchmarks/run.py --only b,c --systems penstock,bytewax --rounds 5
"""

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

from environments import CACHE, Environment, UnavailableError, prepare
from measure import Run, RunError, run
from results import Measured, Memory, Pair, Report
from rich.console import Console
from tables import markdown, print_table, write_json
from workloads import WORKLOADS, Sizes, Truth, Workload

SYSTEMS = ("penstock", "pyflink", "bytewax", "pyspark", "plain")
PYFLINK_MODES = ("process", "thread")
BYTEWAX_LAYOUTS = ("1", "2-threads", "2-processes")
BYTEWAX_BATCHES = (1_000, 10_000, 100_000)
DEFAULT_BYTEWAX = ("10000", "1")


class Bench:
    """One call: what it runs and what it has found so far."""

    def __init__(self, arguments: argparse.Namespace, console: Console) -> None:
        self.quick: bool = arguments.quick
        self.rounds: int = 1 if self.quick else arguments.rounds
        self.modes: list[str] = arguments.modes
        self.layouts: list[str] = arguments.layouts
        self.batches: list[int] = list(map(int, arguments.batches))
        self.timeout_s: float = arguments.timeout
        self.workloads = [each for each in WORKLOADS if each.letter in arguments.only]
        self.console = console
        self.environments: dict[str, Environment] = {}
        self.missing: dict[str, str] = {}
        for system in arguments.systems:
            try:
                self.environments[system] = prepare(system)
            except UnavailableError as error:
                self.missing[system] = str(error)
        self.report = Report(_machine(self.environments), self.quick, self.rounds)
        self._truths: dict[tuple[str, int], Truth] = {}

    def run(self, save: Path) -> None:
        """Measure workload by workload, saving after each."""
        for workload in self.workloads:
            for system in SYSTEMS[1:]:
                for key, options in self._variants(system, workload):
                    self._compare(workload, system, key, options)
            if set(self.environments) == {"penstock"}:
                self._compare(workload, "penstock", "penstock", ())
            if workload.name == "keyed_state" and "penstock" in self.environments:
                self._measure_memory(workload)
            for system, reason in self.missing.items():
                self.report.measured.append(Measured(workload, system, system, problem=reason))
            write_json(self.report, save)

    def _variants(self, system: str, workload: Workload) -> list[tuple[str, tuple[str, ...]]]:
        """List what of a system takes part: the key of its sizes, and its program's options."""
        if system not in self.environments:
            return []
        if system == "pyflink":
            return [(f"pyflink-{mode}", (mode,)) for mode in self.modes]
        if system not in workload.sizes:
            return []
        if system == "bytewax":
            return [("bytewax", options) for options in self._tune_bytewax(workload)]
        return [(system, ())]

    def _tune_bytewax(self, workload: Workload) -> list[tuple[str, ...]]:
        """Find the batch size with which one worker is fastest and right, and what is fastest of all."""
        if self.quick:
            return [DEFAULT_BYTEWAX]
        sizes = workload.sizes["bytewax"]
        seconds: dict[tuple[str, ...], float] = {}
        notes: dict[str, str] = {}
        for layout in self.layouts:
            for batch in self.batches:
                options = (str(batch), layout)
                try:
                    seconds[options] = self._measure("bytewax", workload, sizes.small, options).seconds
                    notes[" ".join(options)] = f"{sizes.small / seconds[options]:,.0f}/s"
                except RunError as error:
                    notes[" ".join(options)] = str(error)
        self.report.tuning[workload.name] = notes
        alone = {options: taken for options, taken in seconds.items() if options[1] == self.layouts[0]}
        fastest = [min(found, key=found.__getitem__) for found in (alone, seconds) if found]
        return list(dict.fromkeys(fastest)) or [DEFAULT_BYTEWAX]

    def _compare(self, workload: Workload, system: str, key: str, options: tuple[str, ...]) -> None:
        label = " ".join((system, *options))
        measured = Measured(workload, system, label)
        ours = Measured(workload, "penstock", f"penstock (beside {label})")
        for _ in range(self.rounds):
            if "penstock" in self.environments and system != "penstock" and not ours.problem:
                self._add_pair(ours, workload.sizes["penstock"], ())
            self._add_pair(measured, workload.sizes[key], options)
            if measured.problem:
                break
        measured.penstock = ours.pairs
        self.report.measured += ([ours] if ours.pairs or ours.problem else []) + [measured]

    def _add_pair(self, measured: Measured, sizes: Sizes, options: tuple[str, ...]) -> None:
        system, workload = measured.system, measured.workload
        try:
            small = None if self.quick else self._measure(system, workload, sizes.small, options)
            large = self._measure(system, workload, sizes.quick if self.quick else sizes.large, options)
            measured.pairs.append(Pair(small, large))
        except RunError as error:
            measured.problem = str(error)
            self.console.print(f"[red]{error}")

    def _measure(
        self, system: str, workload: Workload, records: int, options: tuple[str, ...], *, sample_memory: bool = False
    ) -> Run:
        environment = self.environments[system]
        truth = self._truths.setdefault((workload.name, records), workload.truth(records))
        measured = run(
            system, environment, workload.name, records, options, timeout_s=self.timeout_s, sample_memory=sample_memory
        )
        if measured.result != truth:
            reason = (
                f"{system} {' '.join(options)} gave a wrong result on {workload.name}: {measured.result}, not {truth}"
            )
            raise RunError(reason)
        self.console.print(
            f"({workload.letter}) {system} {' '.join(options)}: {records:,} records in {measured.seconds:.2f} s, "
            f"{measured.processor_seconds:.1f} s of processor time, load {measured.load:.1f}",
            highlight=False,
        )
        return measured

    def _measure_memory(self, workload: Workload) -> None:
        """Sample in a run of its own, so that no timed run pays for it."""
        sizes = workload.sizes["penstock"]
        try:
            measured = self._measure(
                "penstock", workload, sizes.quick if self.quick else sizes.large, (), sample_memory=True
            )
        except RunError as error:
            self.console.print(f"[red]{error}")
        else:
            self.report.memory = Memory(measured.records, **measured.memory)


def _machine(environments: dict[str, Environment]) -> dict[str, str]:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), cpu)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores, {cpu}, {memory:.0f} GiB, {platform.system()} {platform.release()}",
        **{system: environment.versions for system, environment in environments.items()},
    }


def _choice(known: tuple[str, ...], text: str) -> list[str]:
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in chosen if part not in known]
    if unknown:
        reason = f"{', '.join(unknown)}: not one of {', '.join(known)}"
        raise argparse.ArgumentTypeError(reason)
    return chosen


def main() -> int:
    letters = tuple(each.letter for each in WORKLOADS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", type=lambda text: _choice(letters, text), default=list(letters), help="for example a,c"
    )
    parser.add_argument(
        "--systems", type=lambda text: _choice(SYSTEMS, text), default=list(SYSTEMS), help=", ".join(SYSTEMS)
    )
    parser.add_argument(
        "--modes",
        type=lambda text: _choice(PYFLINK_MODES, text),
        default=list(PYFLINK_MODES),
        help=f"of PyFlink: {', '.join(PYFLINK_MODES)}",
    )
    parser.add_argument(
        "--layouts",
        type=lambda text: _choice(BYTEWAX_LAYOUTS, text),
        default=list(BYTEWAX_LAYOUTS),
        help=f"of Bytewax: {', '.join(BYTEWAX_LAYOUTS)}",
    )
    batches = tuple(map(str, BYTEWAX_BATCHES))
    parser.add_argument(
        "--batches",
        type=lambda text: _choice(batches, text),
        default=list(batches),
        help=f"of Bytewax: {', '.join(batches)}",
    )
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs for each figure (3)")
    parser.add_argument("--timeout", type=float, default=150, help="seconds before a single run is ended (150)")
    parser.add_argument("--quick", action="store_true", help="few records, one round: does everything work?")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the Markdown table here, not to standard output"
    )
    arguments = parser.parse_args()
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 140)
    bench = Bench(arguments, console)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    save = CACHE / "results" / f"{stamp}.json"
    bench.run(save)
    print_table(bench.report, console)
    text = markdown(bench.report)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    else:
        print(text)
    console.print(f"Every run: {save}")
    return 1 if any(each.problem for each in bench.report.measured) else 0


if __name__ == "__main__":
    sys.exit(main())
