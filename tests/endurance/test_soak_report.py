"""The report of a soak tells what leaks in a process from what grows over restarts, and both from warming up."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.endurance.soak_report import draw, figures

if TYPE_CHECKING:
    from tests.endurance.program_notes import Look

LIFE_S, LIVES, LAST_S, LOOK_S = 240, 10, 2_400, 10
KIB = 1e6 / 1024


def looks(*, leak: float = 0, over_lives: float = 0, heap: float = 0, held: float = 0) -> list[Look]:
    """Make the looks at a soak.

    Args:
        leak: The MB an hour that each worker leaks.
        over_lives: The MB an hour by which each life begins with a larger driver than the one before.
        heap: The MB an hour that more lives in the JVM's heap.
        held: The MB that the epoch of a look may hold in it.
    """
    made: list[Look] = []
    epochs = random.Random(1)
    starts = [(life, life * LIFE_S, LIFE_S) for life in range(LIVES)] + [(LIVES, LIVES * LIFE_S, LAST_S)]
    for life, start, length in starts:
        for age in range(LOOK_S, length + 1, LOOK_S):
            warm = min(age, 120) / 120
            jvm = {"kind": "JVM", "pid": life * 10 + 1, "anonymous_kib": (400 + age / 2) * KIB}
            if age % 60 == 0:
                jvm["live_kib"] = (60 + heap * age / 3600 + held * epochs.random() ** 2) * KIB
            driver = {
                "kind": "driver",
                "pid": life * 10,
                "anonymous_kib": (100 * warm + over_lives * start / 3600) * KIB,
            }
            workers = [
                {"kind": "worker", "pid": life * 10 + number, "anonymous_kib": (90 * warm + leak * age / 3600) * KIB}
                for number in (2, 3)
            ]
            own = [
                {"processor_s": age / 10, "private_kib": 2 * one["anonymous_kib"], **one}
                for one in (jvm, driver, *workers)
            ]
            made.append(
                {
                    "at_s": start + age,
                    "life": life,
                    "age_s": age,
                    "processes": own,
                    "epochs_ms": [500, 600],
                    "checkpoint_kib": 2_000,
                    "scratch_files": 20,
                    "load": 1.0,
                }
            )
    return made


def growth(made: list[Look]) -> dict[str, float | None]:
    return {name.removesuffix(", MB/h"): value for name, value in figures(made).items() if name.endswith("MB/h")}


def test_processes_that_only_warm_up_do_not_grow() -> None:
    assert growth(looks()) == pytest.approx(dict.fromkeys(growth(looks()), 0), abs=0.1)
    assert figures(looks())["cores of the last life"] == pytest.approx(0.4, abs=0.01)


def test_leak_in_a_process_is_seen_in_the_last_life_alone() -> None:
    found = growth(looks(leak=30))
    assert found.pop("worker, within a life") == pytest.approx(30, abs=0.1)
    assert found == pytest.approx(dict.fromkeys(found, 0), abs=0.1)


def test_what_a_restart_does_not_cure_is_seen_over_the_lives_alone() -> None:
    found = growth(looks(over_lives=25))
    assert found.pop("driver, over lives") == pytest.approx(25, abs=0.1)
    assert found == pytest.approx(dict.fromkeys(found, 0), abs=0.1)


def test_heap_counts_by_what_lives_in_it() -> None:
    found = growth(looks(heap=20))
    assert found.pop("heap, within a life") == pytest.approx(20, abs=0.1)
    assert found == pytest.approx(dict.fromkeys(found, 0), abs=0.1)


def test_what_an_epoch_holds_of_the_heap_is_no_growth() -> None:
    assert abs(growth(looks(held=40))["heap, within a life"] or 99) < 10
    assert growth(looks(heap=60, held=40))["heap, within a life"] == pytest.approx(60, abs=20)


def test_short_soak_has_no_slopes_and_a_drawing() -> None:
    short = looks()[:30]
    assert set(growth(short).values()) == {None}
    assert draw(short).count("<polyline") == 5
