"""Every place that takes a path, with every spelling: it leads to where it led when the path was given."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest
from tests.kit.cells import cells
from tests.kit.stories import Sheet, Story
from tests.unit.driver.asked import Asked, new_name

from penstock._engine.cli.options import checked_settings
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.rest.settings import RestSettings
from penstock._engine.savepoints.chains import same_place
from penstock._engine.savepoints.survey import LeftoverPlaces
from penstock._engine.storage.opening import open_storage
from penstock.common import WatermarkStrategy, option_table
from penstock.common.config_loading import OPTIONS_VARIABLE, effective_configuration
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.savepoint import Savepoint, SavepointWriter
from penstock.testing.sink_contract import SinkRun
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver

#: Gives a path now; what it returns is called later, elsewhere, and tells where the path has led.
Place: TypeAlias = "Callable[[str], Callable[[], str]]"

SPELLINGS = {
    "plain": "{folder}",
    "relative": "here/the data",
    "dot": "./here/./the data/",
    "two-slashes": "{above}//here//the data",
    "step-up": "here/../here/the data",
    "hadoop": "file:{folder}",
    "url": "file://{folder}",
    "localhost": "file://localhost{folder}",
    "escaped": "file:{above}/here/the%20data/",
    "home": "~/here/the data",
}


def _written(run: SinkRun) -> None:
    run.commit(run.epoch([{"word": "one"}], end_of_input=True))
    run.close()


def _found(folder: Path) -> str:
    """Return the folder in which the only visible file was made."""
    (file,) = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return str(file.parent)


def _sink(make: Callable[[str], Any], top: Path) -> Place:
    def place(text: str) -> Callable[[], str]:
        sink = make(text).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()

        def later() -> str:
            _written(SinkRun(sink))
            return _found(top)

        return later

    return place


def _source(text: str) -> Callable[[], str]:
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), text, f"{text}/*.tx?").build()
    (here,) = (path for path in Path.cwd().rglob("the data"))
    (here / "where.txt").write_text(str(here))

    def later() -> str:
        (line,) = SourceRun(source).run_to_end()  # by two names of it, the file is read once
        return line

    return later


def _setting(option: Any, give: Callable[[str, str], Configuration]) -> Place:
    def place(text: str) -> Callable[[], str]:
        configuration = give(option.key, text)
        return lambda: cast("str", configuration.get(option))

    return place


def _by_program(key: str, text: str) -> Configuration:
    given = Configuration().set_string(key, text)
    return StreamExecutionEnvironment.get_execution_environment(given)._configuration


def _by_configure(key: str, text: str) -> Configuration:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(Configuration().set_string(key, text))
    return env._configuration


def _by_file(key: str, text: str) -> Configuration:
    folder = Path.cwd() / "conf"
    folder.mkdir()
    (folder / "config.yaml").write_text(f"{key}: {json.dumps(text)}")
    return effective_configuration(Configuration(), None, {"PENSTOCK_CONF_DIR": "conf"})


def _by_variable(key: str, text: str) -> Configuration:
    variable = "PENSTOCK_" + key.replace(".", "__").replace("-", "_").upper()
    return effective_configuration(Configuration(), None, {variable: text})


def _by_command(key: str, text: str) -> Configuration:
    given = checked_settings(((key, text),))
    return effective_configuration(Configuration(), None, {OPTIONS_VARIABLE: json.dumps(given)})


def _by_setter(text: str) -> Callable[[], str]:
    env = StreamExecutionEnvironment.get_execution_environment().set_default_savepoint_directory(text)
    return lambda: str(env.get_default_savepoint_directory())


def _by_option(text: str) -> Callable[[], str]:
    configuration = Configuration().set(option_table.CHECKPOINT_DIRECTORY, text)
    return lambda: str(configuration.get(option_table.CHECKPOINT_DIRECTORY))


def _registry(text: str) -> Callable[[], str]:
    settings = RestSettings.read(Configuration().set_string("penstock.rest.registry-dir", text))
    return lambda: str(settings.registry_directory)


def _asked_savepoint(text: str) -> Callable[[], str]:
    asked = Asked(new_name(), Path.cwd() / "job")
    perform, answers = asked.loop.perform, list[Any]()

    def ask(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.RunEpoch) and not answers:
            answers.append(asked.driver.savepoint(text, StopMode.NO))
            os.chdir("elsewhere")

    asked.loop.perform = ask  # type: ignore[method-assign]
    asked.run({})
    return lambda: str(Path(answers[0].result(0)).parent)


def _new_savepoint(text: str) -> Callable[[], str]:
    path = SavepointWriter.new().set_keyed_state("totals", "total", {"ada": 3}).write(text)
    savepoint = Savepoint.open(text)

    def later() -> str:
        assert [entry.value for entry in savepoint.keyed_state("totals", "total")] == [3]
        assert same_place(path, savepoint.path)
        return savepoint.path

    return later


def _directory_to_clean(text: str) -> Callable[[], str]:
    storage = LeftoverPlaces().open(text)
    storage.put("a/b", b"")
    assert open_storage(storage.url).names("a") == ["b"]  # as tasks open it
    return lambda: str(Path(storage.full_path("a/b")).parents[1])


ENCODER = Encoder.simple_string_encoder()
OPTIONS = [
    option_table.CHECKPOINT_DIRECTORY,
    option_table.SAVEPOINT_DIRECTORY,
    option_table.RECOVERY_PATH,
    option_table.ARCHIVE_DIRECTORY,
    option_table.REST_REGISTRY_DIRECTORY,
]
PLACES: dict[str, Callable[[Path], Place]] = {
    "sink-of-rows": lambda top: _sink(lambda text: FileSink.for_row_format(text, ENCODER), top),
    "sink-of-a-bulk-format": lambda top: _sink(
        lambda text: FileSink.for_bulk_format(text, ParquetBulkWriters.for_schema()), top
    ),
    "source": lambda _: _source,
    "set_default_savepoint_directory": lambda _: _by_setter,
    "configuration-set": lambda _: _by_option,
    "registry": lambda _: _registry,
    "savepoint-of-a-running-job": lambda _: _asked_savepoint,
    "savepoint-written": lambda _: _new_savepoint,
    "directory-to-clean": lambda _: _directory_to_clean,
    **{f"program {option.key}": lambda _, option=option: _setting(option, _by_program) for option in OPTIONS},
    **{f"configure {option.key}": lambda _, option=option: _setting(option, _by_configure) for option in OPTIONS[:1]},
    **{f"file {option.key}": lambda _, option=option: _setting(option, _by_file) for option in OPTIONS},
    **{f"variable {option.key}": lambda _, option=option: _setting(option, _by_variable) for option in OPTIONS},
    **{f"command {option.key}": lambda _, option=option: _setting(option, _by_command) for option in OPTIONS},
}


@cells("spelling", SPELLINGS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_path_leads_to_where_it_led_when_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[Path], Place], spelling: str
) -> None:
    folder = tmp_path / "here" / "the data"
    folder.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    later = place(folder)(spelling.format(folder=folder, above=tmp_path))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert later() == str(folder)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_job_reads_and_writes_where_it_was_told_whatever_the_directory_is_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    (here / "in").mkdir(parents=True)
    elsewhere.mkdir()
    for name in "ab":
        (here / "in" / name).write_text("".join(f"{name}{number}\n" for number in range(9)))

    def program(sheet: Sheet) -> None:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").build()
        lines = sheet.env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
        lines.sink_to(FileSink.for_row_format("out", ENCODER).build()).uid("sink")
        os.chdir(elsewhere)

    def stop(driver: JobDriver) -> None:
        os.chdir(tmp_path)
        driver.cancel()

    story = Story(tmp_path)
    for asks in ({3: stop}, None):
        monkeypatch.chdir(here)
        chapter = story.run(program, asks=asks, checkpoints="checkpoints", recover="latest")
        assert chapter.status is (JobStatus.CANCELED if asks else JobStatus.FINISHED), chapter.error
    written = [line for path in (here / "out").rglob("part-*") for line in path.read_text().split()]
    assert sorted(written) == sorted(f"{name}{number}" for name in "ab" for number in range(9))
    assert list(elsewhere.iterdir()) == []
    assert not (tmp_path / "out").exists()


def test_latest_is_a_word_and_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    configuration = effective_configuration(
        Configuration.from_dict({"execution.state-recovery.path": "latest"}), None, {}
    )
    assert configuration.get(option_table.RECOVERY_PATH) == "latest"
    assert checked_settings((("execution.state-recovery.path", "latest"),)) == configuration.to_dict()


def test_savepoint_by_way_of_a_link_is_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert same_place(f"{tmp_path}/link/sp", f"file:{tmp_path}/real/sp/_metadata")
    assert not same_place(f"{tmp_path}/link/sp", f"{tmp_path}/real/other")
    assert same_place("s3a://bucket/sp/", "s3://bucket//sp/_metadata")
