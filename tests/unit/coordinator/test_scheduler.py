"""What all parts of a job's coordinator share."""

import pytest

from penstock._engine.coordinator.phases import MOVES, Phase
from penstock._engine.coordinator.scheduler import CoordinatorContext
from penstock.errors import InternalError


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_is_followed_by_no_other_than_those_it_allows(phase: Phase) -> None:
    for following in set(Phase) - set(MOVES[phase]):
        context = CoordinatorContext()
        context.phase = phase
        with pytest.raises(InternalError, match=f"{phase.name} to {following.name}"):
            context.go(following)
        assert context.phase is phase
