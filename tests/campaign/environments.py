"""The cases that run tests in environments of their own: with other versions, or with faults made in the code."""

from __future__ import annotations

import sys

from tests.campaign.case import Case
from tests.release.pythons import interpreters

#: The series of Spark before the newest, each with the Python that it is tried with.
EARLIER_SPARKS = {"4.1": "3.13", "4.2": "3.12"}
#: Environments are made, of a gigabyte each.
INSTALLED_LIMIT_S = 2 * 3600
#: A mutant takes its tests seconds to a minute; one that they let live takes the time of the whole suite.
MUTANTS_LIMIT_S = 6 * 3600


def in_environments(pytest: list[str], seed: int) -> list[Case]:
    """Return these cases in their order.

    Args:
        pytest: The command that runs tests.
        seed: Of what is drawn.
    """
    mutants = Case(
        "mutants",
        "120 small faults in what holds data or tells of it: the tests catch 110, and each other one has a reason",
        [interpreters().get("3.12", sys.executable), "dev.py", "mutants", f"--seed={seed}"],
        {"PENSTOCK_VENV": ".venv-3.12"},
        MUTANTS_LIMIT_S,
    )
    pythons = [
        Case(
            f"python-{version}",
            f"the whole suite on Python {version}, in an environment of its own",
            [python, "dev.py", "test"],
            {"PENSTOCK_VENV": f".venv-{version}"},
        )
        for version, python in interpreters().items()
        if version != f"{sys.version_info.major}.{sys.version_info.minor}"
    ]
    installed = Case(
        "installed",
        "the wheel in an empty environment of each Python, and the source distribution: doctor and demo, without Java",
        [*pytest, "tests/release/test_installed.py"],
        {"PENSTOCK_TEST_INSTALLED": "1"},
        INSTALLED_LIMIT_S,
    )
    versions = [
        Case(
            which,
            f"the tests of units and connectors with the {which} version of each dependency that users may have",
            [*pytest, "tests/release/test_versions.py"],
            {"PENSTOCK_TEST_VERSIONS": which},
            INSTALLED_LIMIT_S,
        )
        for which in ("lowest", "newest")
    ]
    sparks = [
        Case(
            f"spark-{series}",
            f"the tests of Spark and of faults on Spark {series} and Python {version}, in an environment of its own",
            [*pytest, "tests/release/test_sparks.py"],
            {"PENSTOCK_TEST_SPARK": f"{series} {version}"},
            INSTALLED_LIMIT_S,
        )
        for series, version in EARLIER_SPARKS.items()
    ]
    return [mutants, installed, *versions, *sparks, *pythons]
