"""Hands events to a job's coordinator, and compares its instructions: nothing else is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.kit.world import numbers_job, one_row_each, one_row_to_each
from tests.unit.coordinator.acks import ack

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.chain import DriverIdentity
from penstock._engine.coordinator.epochs.sources import EnumeratorSnapshot
from penstock._engine.coordinator.job import JobCoordinator
from penstock._engine.coordinator.settings import JobSettings
from penstock._engine.plan.epoch_plan import EpochOutcome
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.clocks import Moment
from penstock._engine.protocol.control import OperatorAck
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from penstock._engine.coordinator.phases import Phase

NOW: Final = Moment(1_000, 0)
RUN: Final = DriverIdentity(run_id="a" * 32, fresh_job_id="b" * 32, penstock_version="1")
PLAN: Final = build_plan(numbers_job("pure"))

#: From the claim to the first epoch.
STARTED: Final[tuple[ev.Event, ...]] = (
    ev.ChainEntriesListed(()),
    ev.ChainEntryStored(),
    ev.ChainEntriesListed((1,)),
    ev.StartRecorded(),
    ev.EnumeratorsCalled({}),
)


def settings(**keys: str) -> JobSettings:
    """Settings by key, with '_' for '.' and '__' for '-'."""
    configuration = Configuration()
    for key, value in keys.items():
        configuration.set_string(key.replace("__", "-").replace("_", "."), value)
    return JobSettings.read(configuration, "numbers")


class Told:
    """One coordinator, and what it answers."""

    def __init__(self, *events: ev.Event, **keys: str) -> None:
        self.coordinator = JobCoordinator(PLAN, settings(**keys), RUN)
        self.first = self.coordinator.begin(NOW)
        for event in events:
            self.tell(event)

    @property
    def phase(self) -> Phase:
        return self.coordinator.phase

    def tell(self, event: ev.Event) -> list[do.Instruction]:
        instructions = self.coordinator.handle(event, NOW)
        self.coordinator.validate()
        return instructions

    def names(self, event: ev.Event) -> str:
        """Return the types of the instructions that follow from an event."""
        return " ".join(type(one).__name__ for one in self.tell(event))


def outcome(checkpoint_id: int, *, finished: bool = False, committable: bytes | None = None) -> EpochOutcome:
    """Return what an epoch of all subtasks answers in which each has read the attempts that count."""
    acks: list[Any] = []
    for vertex in PLAN.graph.vertices:
        for index in range(vertex.parallelism):
            uids = [node.uid for node in vertex.operators]
            parts = {uid: OperatorAck(split_requests=0, more_available=True) for uid in uids}
            if committable is not None and "target" in parts:
                parts["target"] = OperatorAck(committables=(committable,))
            acks.append(
                ack(
                    vertex.id,
                    index,
                    checkpoint_id=checkpoint_id,
                    token=_token(vertex.id, index),
                    rows_read=one_row_each(PLAN, index, SENDERS) if vertex.id else {},
                    rows_sent={} if vertex.id else one_row_to_each(PLAN, index),
                    operators=parts,
                    finished=finished,
                    watermark=MAX_WATERMARK if finished else 0,
                )
            )
    return EpochOutcome(tuple(acks), ())


def _token(vertex: int, index: int) -> int:
    return 10 * vertex + index + 1


def ended(checkpoint_id: int, **what: Any) -> ev.EpochEnded:
    return ev.EpochEnded(outcome(checkpoint_id, **what), 100, 2)


#: The tokens of those that send.
SENDERS: Final = [_token(0, index) for index in range(PLAN.graph.vertices[0].parallelism)]
SNAPSHOTS: Final = ev.EnumeratorsSnapshotted({"numbers": EnumeratorSnapshot(b"")}, {})
