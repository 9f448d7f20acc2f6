"""Jobs whose operators have no uids start from a checkpoint after their program has changed."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import EndlessSource, Sheet, Story

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.errors import MovedOperatorError
from penstock.savepoint import Savepoint, SavepointWriter
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONES = [("k", 1)] * 20


def first(record: Any) -> Any:
    return record[0]


def greatest(one: Any, other: Any) -> Any:
    return one[0], max(one[1], other[1])


def total(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


def keyed(sheet: Sheet) -> Any:
    return sheet.source("ones", ONES).key_by(first)


def summed(sheet: Sheet) -> None:
    sheet.collect(keyed(sheet).reduce(total), "sums")


def beside(sheet: Sheet) -> None:
    """A reduce of another kind put before the one that was there."""
    stream = keyed(sheet)
    sheet.collect(stream.reduce(greatest).name("Greatest"), "greatest")
    sheet.collect(stream.reduce(total).name("Total"), "sums")


def behind(sheet: Sheet) -> None:
    """The same, between the source and the one that was there."""
    sheet.collect(keyed(sheet).reduce(greatest).name("Greatest").key_by(first).reduce(total), "sums")


def exact(story: Story) -> None:
    assert [record[1] for record in story.output("sums")] == list(range(1, len(ONES) + 1))


def refusal(story: Story, program: Callable[[Sheet], None], path: str, **settings: str) -> MovedOperatorError:
    refused = story.run(program, recover=path, **{"restart": "exponential-delay", **settings})
    assert refused.status is JobStatus.FAILED
    assert not refused.runner.plans
    assert not [step for step in refused.steps if isinstance(step, do.PutChainEntry)], "the chain is as it was"
    assert isinstance(refused.error, MovedOperatorError)
    return refused.error


@pytest.mark.parametrize("changed", [beside, behind])
def test_a_reduce_put_before_another_does_not_get_its_state(tmp_path: Path, changed: Callable[[Sheet], None]) -> None:
    story = Story(tmp_path)
    stopped = story.run(summed, asks={4: StopMode.SUSPEND})
    error = refusal(story, changed, stopped.savepoint)
    assert error.operator[0] == "Reduce"
    assert re.search(r"of operator 'Reduce', .* might now go to 'Greatest' at test_moved_operators.py:\d+", str(error))
    assert f"the uid({error.operator[1]!r})" in str(error)


def test_the_uid_that_the_refusal_names_gives_the_state_to_the_operator_that_has_moved(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(summed, asks={4: StopMode.SUSPEND})
    uid = refusal(story, beside, stopped.savepoint).operator[1]

    def told(sheet: Sheet) -> None:
        stream = keyed(sheet)
        sheet.collect(stream.reduce(greatest).name("Greatest"), "greatest")
        sheet.collect(stream.reduce(total).uid(uid), "sums")

    again = story.run(told, recover=stopped.savepoint, asks={3: StopMode.SUSPEND})
    story.run(told, recover=again.savepoint)
    exact(story)
    assert {record[1] for record in story.output("greatest")} == {1}


def test_the_option_drops_the_state_of_what_has_moved_and_no_other(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(summed, asks={4: StopMode.SUSPEND})
    before = len(story.output("sums"))
    again = story.run(beside, recover=stopped.savepoint, ignore="true")
    rest = len(ONES) - before
    assert 0 < rest < len(ONES), "the source, which has a uid, has gone on"
    assert again.outputs["greatest"] == [("k", 1)] * rest
    assert [value for _, value in again.outputs["sums"]] == list(range(1, rest + 1))
    said = [step.text for step in again.steps if isinstance(step, do.LogMessage)]
    assert [text for text in said if re.fullmatch(r"The state of operator 'Reduce' \(uid '\w+'\) is dropped", text)]


def reading(names: str) -> Callable[[Sheet], None]:
    """A program over sources without uids."""

    def write(sheet: Sheet) -> None:
        streams = [
            sheet.env.from_source(
                EndlessSource([f"{name}{number}" for number in range(6)]), WatermarkStrategy.no_watermarks(), name
            )
            for name in names
        ]
        sheet.collect(streams[0].union(*streams[1:]) if streams[1:] else streams[0])

    return write


def test_a_source_put_before_another_does_not_get_its_splits(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(reading("a"), asks={3: StopMode.SUSPEND})
    error = refusal(story, reading("ba"), stopped.savepoint)
    assert re.search(r"'Source: a', .*'Source: b' at .* uid\(", str(error))
    fresh = story.run(reading("ba"), recover=stopped.savepoint, ignore="true", asks={12: StopMode.DRAIN}).outputs["out"]
    assert sorted(fresh) == [f"{name}{number}" for name in "ab" for number in range(6)]


def test_sources_that_have_changed_places_are_refused(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(reading("ab"), asks={3: StopMode.SUSPEND})
    assert "of kind source have changed places" in str(refusal(story, reading("ba"), stopped.savepoint))


def test_a_finished_source_does_not_pass_for_one_put_before_it(tmp_path: Path) -> None:
    def program(names: str) -> Callable[[Sheet], None]:
        def write(sheet: Sheet) -> None:
            for name in names:
                source = ListSource([name] * 2)
                stream = sheet.env.from_source(source, WatermarkStrategy.no_watermarks(), name)
                sheet.collect(stream, f"out {name}")
            sheet.collect(sheet.source("endless", [1] * 9, kind=EndlessSource), "others")

        return write

    story = Story(tmp_path)
    stopped = story.run(program("a"), asks={4: StopMode.SUSPEND})
    assert story.output("out a") == ["a", "a"]
    refusal(story, program("ba"), stopped.savepoint)


def test_latest_finds_all_state_of_an_unchanged_program_and_so_does_a_restart_of_the_job(tmp_path: Path) -> None:
    failed = tmp_path / "failed"

    class Fails(MapFunction):
        def map(self, value: Any) -> Any:
            if value[1] == 9 and not failed.exists():
                failed.touch()
                raise OSError
            return value

    def program(sheet: Sheet) -> None:
        sheet.collect(keyed(sheet).reduce(total).map(Fails()), "sums")

    story = Story(tmp_path)
    story.run(program, asks={3: StopMode.SUSPEND}, recover="latest")
    story.run(program, asks={12: StopMode.SUSPEND}, recover="latest", restart="exponential-delay")
    assert failed.exists()
    story.run(program, recover="latest")
    exact(story)


def test_what_comes_after_it_or_on_another_input_may_change_and_so_may_parallelism_and_chains(tmp_path: Path) -> None:
    def changed(sheet: Sheet) -> None:
        sheet.env.set_parallelism(2).disable_operator_chaining()
        other = sheet.source("others", [("o", 5)]).key_by(first)
        sheet.collect(other.reduce(greatest), "other sums")
        sums = keyed(sheet).reduce(total)
        sheet.collect(sums.map(lambda record: record), "sums")
        sums.filter(bool).name("beside")

    story = Story(tmp_path)
    stopped = story.run(summed, asks={4: StopMode.SUSPEND})
    story.run(changed, recover=stopped.savepoint)
    exact(story)
    assert story.output("other sums") == [("o", 5)]


def test_a_start_with_a_checkpoint_directory_names_what_keeps_state_without_a_uid_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def program(sheet: Sheet) -> None:
        stream = keyed(sheet)
        stream.reduce(greatest).name("Greatest").map(str)
        sheet.collect(stream.reduce(total).uid("total"), "sums")

    with caplog.at_level(logging.WARNING):
        Story(tmp_path).run(program)
    [said] = [record.getMessage() for record in caplog.records if "no uid" in record.getMessage()]
    assert re.search(r"no uid\(...\): 'Greatest' at test_moved_operators.py:\d+\. ", said), said


def two(sheet: Sheet) -> None:
    stream = keyed(sheet)
    sheet.collect(stream.reduce(greatest).name("Greatest"), "greatest")
    sheet.collect(stream.reduce(total).name("Total"), "sums")


def swapped(sheet: Sheet) -> None:
    stream = keyed(sheet)
    sheet.collect(stream.reduce(total).name("Total"), "sums")
    sheet.collect(stream.reduce(greatest).name("Greatest"), "greatest")


def test_a_savepoint_that_was_written_anew_still_says_where_operators_stood(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(two, asks={4: StopMode.SUSPEND})
    uids = {operator.name: operator.uid for operator in Savepoint.open(stopped.savepoint).operators}
    writer = SavepointWriter.from_existing(stopped.savepoint).drop_operator(uids["Greatest"])
    path = writer.write(str(tmp_path / "without"))
    assert refusal(story, swapped, path).operator == ("Total", uids["Total"])
    again = story.run(two, recover=path)
    assert again.outputs["greatest"][0] == ("k", 1), "its state was dropped"
    exact(story)


def test_an_operator_that_got_a_uid_in_a_savepoint_is_found_by_it_wherever_it_stands(tmp_path: Path) -> None:
    def named(sheet: Sheet) -> None:
        stream = keyed(sheet)
        sheet.collect(stream.reduce(greatest).name("Greatest"), "greatest")
        sheet.collect(stream.reduce(total).uid("total"), "sums")

    story = Story(tmp_path)
    stopped = story.run(summed, asks={4: StopMode.SUSPEND})
    [uid] = [operator.uid for operator in Savepoint.open(stopped.savepoint).operators if operator.name == "Reduce"]
    path = SavepointWriter.from_existing(stopped.savepoint).change_uid(uid, "total").write(str(tmp_path / "named"))
    story.run(named, recover=path)
    exact(story)
