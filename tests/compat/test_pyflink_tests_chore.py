"""The chore that runs PyFlink's own tests, on a checkout that has a few tests of ours in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.compat.pyflink_tests import run, verdicts

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import unittest

from pyflink.common import Row, Types
from pyflink.datastream.tests.test_util import DataStreamTestSinkFunction
from pyflink.java_gateway import get_gateway
from pyflink.testing.test_case_utils import PyFlinkBatchTestCase, PyFlinkStreamingTestCase


class Some:
    def test_records(self):
        sink = DataStreamTestSinkFunction()
        rows = Types.ROW([Types.STRING(), Types.FLOAT(), Types.BASIC_ARRAY(Types.INT())])
        stream = self.env.from_collection([("a", 1.1, [1]), (None, 2.0, [])], rows)
        stream.map(lambda row: row, rows).add_sink(sink)
        self.env.execute()
        self.assertEqual(sorted(sink.get_results()), ["+I[a, 1.1, [1]]", "+I[null, 2.0, []]"])
        self.assertEqual(sink.get_results(), [])

    def test_java(self):
        get_gateway().jvm.java.lang.String()

    def test_wrong(self):
        self.assertEqual(1, 2)

    @unittest.skip("not today")
    def test_skipped(self):
        pass


class StreamingTests(Some, PyFlinkStreamingTestCase):
    pass


class BatchTests(Some, PyFlinkBatchTestCase):
    pass
"""
MODULE = "datastream.tests.test_some"
FOUND = {
    "test_java": "MissingNameError: java_gateway.get_gateway is missing",
    "test_records": "passes",
    "test_skipped": "skipped: not today",
    "test_wrong": "AssertionError: 1 != 2",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    tests = tmp_path / "flink" / "flink-python" / "pyflink" / "datastream" / "tests"
    tests.mkdir(parents=True)
    (tests / "test_some.py").write_text(TESTS)
    return tmp_path / "flink"


def test_tests_of_a_checkout_are_ported_and_run_in_both_modes(checkout: Path) -> None:
    found = run.run(checkout)
    assert sorted(found) == [f"{MODULE}.{case}.{test}" for case in ("BatchTests", "StreamingTests") for test in FOUND]
    for name, verdict in found.items():
        assert verdict.startswith(FOUND[name.rpartition(".")[2]]), (name, verdict)


def test_the_chore_fails_until_the_list_says_what_happens_and_why(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verdicts, "FILE", tmp_path / "verdicts.toml")
    arguments = [str(checkout), "--only", "Streaming"]

    def lines_of(*more: str) -> list[str]:
        code = run.main([*arguments, *more])
        *lines, summary = capsys.readouterr().out.splitlines()
        assert summary.startswith("4 tests: 2 fail, 1 pass, 1 skip; ")
        assert (code == 0) == (not lines)
        return [line.replace(f"{MODULE}.StreamingTests.", "") for line in lines]

    assert [line.partition(":")[0] for line in lines_of("--write")] == ["new"] * 4
    assert [line.partition(":")[0] for line in lines_of()] == ["unexplained"] * 3
    written = verdicts.FILE.read_text().replace('"unexplained"', '"looks into Java"')
    verdicts.FILE.write_text(written)
    assert lines_of() == []
    listed = verdicts.load()
    verdicts.write(listed)
    assert verdicts.load() == listed
    swapped = {name: "looks into Java" if reason == "passes" else "passes" for name, reason in listed.items()}
    verdicts.write(swapped | {"of.another.release.test_this": "passes"})
    assert lines_of() == [
        "fails: test_java: " + next(line for line in lines_of() if "test_java" in line).partition("test_java: ")[2],
        "better: test_records passes; the list says: looks into Java",
        "fails: test_skipped: skipped: not today",
        "fails: test_wrong: AssertionError: 1 != 2",
    ]


def test_the_list_has_a_reason_for_each_test_that_does_not_pass() -> None:
    reasons = set(verdicts.load().values())
    assert verdicts.PASSES in reasons
    assert verdicts.UNEXPLAINED not in reasons


def test_a_folder_without_tests_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="give the path of a checkout of Flink"):
        run.run(tmp_path)
