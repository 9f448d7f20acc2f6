"""What a benchmark run found, as plain data: rates of one system, and ratios of Penstock to a competitor."""

from dataclasses import dataclass, field
from statistics import median

from measure import Run
from workloads import Workload

LEAST_GROWTH = 1.2


@dataclass(frozen=True, slots=True)
class Pair:
    """A small and a large run, one after the other; a smoke run has only the one."""

    small: Run | None
    large: Run

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.large,) if self.small is None else (self.small, self.large)

    @property
    def raw(self) -> float:
        """Records a second of the larger run, start-up and shutdown included."""
        return self.large.records / self.large.seconds

    @property
    def slope(self) -> float | None:
        """Records a second of what the larger run does more: start-up and shutdown cancel out.

        None where the two take nearly the same time: their difference would be noise.
        """
        if self.small is None or self.large.seconds < self.small.seconds * LEAST_GROWTH:
            return None
        return (self.large.records - self.small.records) / (self.large.seconds - self.small.seconds)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and greatest of a few values."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        return cls(median(values), min(values), max(values))


@dataclass(slots=True)
class Measured:
    """One system on one workload; for a competitor also the Penstock pairs run just before each of its own."""

    workload: Workload
    system: str
    label: str
    pairs: list[Pair] = field(default_factory=list[Pair])
    penstock: list[Pair] = field(default_factory=list[Pair])
    problem: str = ""

    @property
    def ratios(self) -> list[float]:
        slopes = [(ours.slope, theirs.slope) for ours, theirs in zip(self.penstock, self.pairs, strict=False)]
        return [ours / theirs for ours, theirs in slopes if ours and theirs]

    @property
    def bar(self) -> float | None:
        return next((bar.factor for bar in self.workload.bars if bar.system == self.system), None)

    @property
    def load(self) -> float:
        """The greatest load average seen at the start of a run: above the number of cores, others were at work."""
        return max((run.load for pair in (*self.pairs, *self.penstock) for run in pair.runs), default=0.0)


@dataclass(frozen=True, slots=True)
class Memory:
    """Peaks of the largest Python worker of Penstock on the keyed state workload, in bytes."""

    records: int
    private: int
    anonymous: int
    rss: int


@dataclass(slots=True)
class Report:
    """Everything one call of run.py measured."""

    machine: dict[str, str]
    quick: bool
    rounds: int
    measured: list[Measured] = field(default_factory=list[Measured])
    memory: Memory | None = None
    tuning: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
