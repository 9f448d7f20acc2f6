from __future__ import annotations

import json
import logging
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from penstock.common import config_check, option_table, restart_options
from penstock.common.config_loading import effective_configuration, environment_settings, file_settings
from penstock.common.configuration import Configuration
from penstock.common.flink_keys import is_flinks
from penstock.common.time import Duration
from penstock.errors import ConfigurationError, ConfigurationFileError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Start each test as a new process does: with nothing said yet."""
    monkeypatch.setattr(config_check, "_said", set[str]())
    caplog.set_level(logging.WARNING)
    return caplog


def _effective(
    program: dict[str, str] | None = None, script_dir: Path | None = None, environ: dict[str, str] | None = None
) -> Configuration:
    return effective_configuration(Configuration.from_dict(program or {}), script_dir, environ or {})


def _write(directory: Path, text: str) -> Path:
    path = directory / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_program_wins_over_environment_over_file(tmp_path: Path) -> None:
    _write(tmp_path, "parallelism.default: 2\nsink.committer.retries: 3\npipeline.name: file\n")
    environ = {"PENSTOCK_PARALLELISM__DEFAULT": "4", "PENSTOCK_SINK__COMMITTER__RETRIES": "5"}
    config = _effective({"parallelism.default": "6"}, tmp_path, environ)
    assert config.get(option_table.PARALLELISM) == 6
    assert config.get(option_table.COMMITTER_RETRIES) == 5
    assert config.get(option_table.JOB_NAME) == "file"
    assert config.get(option_table.REST_PORT) == 8081


def test_an_older_name_in_the_program_wins_over_the_newest_in_the_file(tmp_path: Path) -> None:
    _write(tmp_path, "execution.checkpointing.dir: /from/file")
    config = _effective({"state.checkpoints.dir": "/from/program"}, tmp_path)
    assert config.to_dict() == {"execution.checkpointing.dir": "/from/program"}


def test_the_newest_name_wins_within_one_place(said: pytest.LogCaptureFixture) -> None:
    config = _effective({"execution.checkpointing.dir": "/new", "state.checkpoints.dir": "/old"})
    assert config.to_dict() == {"execution.checkpointing.dir": "/new"}
    assert "state.checkpoints.dir is an older name of execution.checkpointing.dir" in said.text


@pytest.mark.parametrize(
    "text",
    [
        "execution.checkpointing.interval: 10 s\nexecution.checkpointing.num-retained: 3\nmy.list: [a, b]\n",
        "execution:\n  checkpointing:\n    interval: 10 s\n    num-retained: 3\nmy:\n  list:\n    - a\n    - b\n",
        "execution:\n  checkpointing.interval: 10 s\n  checkpointing: {num-retained: 3}\nmy.list: a;b\n",
    ],
)
def test_the_file_may_be_flat_or_nested(tmp_path: Path, text: str) -> None:
    _write(tmp_path, text)
    config = _effective(script_dir=tmp_path)
    assert config.get(option_table.CHECKPOINTING_INTERVAL) == Duration.of_seconds(10)
    assert config.get(option_table.CHECKPOINTS_RETAINED) == 3
    assert Configuration.parse_list_value(config.get_string("my.list", "")) == ["a", "b"]


def test_the_file_keeps_what_yaml_1_1_would_turn_into_something_else(tmp_path: Path) -> None:
    path = _write(tmp_path, "a: off\nb: 010\nc: 10:30\nd: 1.10\ne: 'quoted: text'\n")
    assert {key: setting.value for key, setting in file_settings(path).items()} == {
        "a": "off",
        "b": "010",
        "c": "10:30",
        "d": "1.10",
        "e": "quoted: text",
    }


def test_a_file_with_secrets_that_others_can_read_is_warned_of(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    path = _write(tmp_path, "penstock.rest.token: none\nparallelism.default: 2")
    path.chmod(0o644)
    _effective(script_dir=tmp_path)
    _write(tmp_path, "s3.secret-key: abc\npenstock.rest: {token: 0123456789abcdef}\nparallelism.default: 2")
    path.chmod(0o600)
    _effective(script_dir=tmp_path)
    assert said.messages == []
    path.chmod(0o604)
    _effective(script_dir=tmp_path)
    _effective(script_dir=tmp_path)
    (warning,) = said.messages
    assert f"{path}, which holds s3.secret-key and penstock.rest.token (mode 0604): chmod 600" in warning


def test_a_key_without_a_value_is_not_set(tmp_path: Path) -> None:
    _write(tmp_path, "execution.checkpointing.dir:\nparallelism.default: ~\n")
    assert _effective(script_dir=tmp_path).to_dict() == {}


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    _write(tmp_path, text)
    assert _effective(script_dir=tmp_path).to_dict() == {}


def test_job_parameters_may_be_nested_in_the_file(tmp_path: Path) -> None:
    _write(tmp_path, "pipeline:\n  global-job-parameters:\n    region: eu\n    limit: 5\n")
    assert _effective(script_dir=tmp_path).get(option_table.GLOBAL_JOB_PARAMETERS) == {"region": "eu", "limit": "5"}


def test_the_directory_of_the_variable_wins_over_the_scripts(tmp_path: Path) -> None:
    script_dir, conf_dir = tmp_path / "script", tmp_path / "conf"
    for directory, name in ((script_dir, "beside"), (conf_dir, "named")):
        directory.mkdir()
        _write(directory, f"pipeline.name: {name}")
    config = _effective(script_dir=script_dir, environ={"PENSTOCK_CONF_DIR": str(conf_dir)})
    assert config.get(option_table.JOB_NAME) == "named"


def test_a_named_directory_without_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationFileError, match="PENSTOCK_CONF_DIR names its directory"):
        _effective(environ={"PENSTOCK_CONF_DIR": str(tmp_path)})


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert _effective(script_dir=tmp_path).to_dict() == {}


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n", "just text"])
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(ConfigurationFileError) as caught:
        _effective(script_dir=tmp_path)
    assert caught.value.path == str(path)


def test_environment_variables_are_keys_in_capitals() -> None:
    environ = {
        "PENSTOCK_EXECUTION__CHECKPOINTING__INTERVAL": "10 s",
        "PENSTOCK_EXECUTION__RUNTIME_MODE": "BATCH",
        "PENSTOCK_JOB_ID": "a" * 32,
        "PENSTOCK_REST__ENABLED": "false",
        "PENSTOCK_MYJOB__LIMIT": "5",
        "PENSTOCK_CONF_DIR": "/etc",
        "PENSTOCK_HOME": "/opt",
        "HOME": "/root",
    }
    assert {key: setting.value for key, setting in environment_settings(environ).items()} == {
        "execution.checkpointing.interval": "10 s",
        "execution.runtime-mode": "BATCH",
        "penstock.job-id": "a" * 32,
        "penstock.rest.enabled": "false",
        "myjob.limit": "5",
    }


def test_a_bad_value_names_the_key_and_where_it_was_set(tmp_path: Path) -> None:
    path = _write(tmp_path, "parallelism.default: many")
    with pytest.raises(ConfigurationError) as in_file:
        _effective(script_dir=tmp_path)
    assert (in_file.value.key, in_file.value.origin) == ("parallelism.default", str(path))
    with pytest.raises(ConfigurationError) as in_environment:
        _effective(environ={"PENSTOCK_PARALLELISM__DEFAULT": "0"})
    assert in_environment.value.origin == "the environment variable PENSTOCK_PARALLELISM__DEFAULT"
    with pytest.raises(ConfigurationError) as in_program:
        _effective({"parallelism.default": "-1"})
    assert in_program.value.origin == ""


@pytest.mark.behaviour(200)
@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("exection.runtime-mode", "execution.runtime-mode"),
        ("state.checkpoint.dir", "state.checkpoints.dir"),
        ("penstock.job_id", "penstock.job-id"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_likely_one_and_where_it_was_set(
    tmp_path: Path, key: str, meant: str
) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"no key {key}, so '10 s' would have no effect: it reads like {meant};"
    ):
        _effective({key: "10 s"})
    path = _write(tmp_path, f"{key}: 10 s")
    with pytest.raises(ConfigurationError, match=rf"\(set in {path}\)"):
        _effective(script_dir=tmp_path)


def test_a_key_below_ours_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Penstock has no such key; penstock\."):
        _effective({"penstock.zebra": "9"})
    with pytest.raises(ConfigurationError, match=r"There is no key penstock.of.another.kind"):
        _effective({"penstock.of.another.kind": "9"})


def test_a_misspelt_variable_of_the_environment_is_refused_too() -> None:
    for name in ("PENSTOCK_JOBID", "PENSTOCK_EXECUTION__CHECKPOINTING__DIRR"):
        with pytest.raises(ConfigurationError, match=rf"\(set in the environment variable {name}\)"):
            _effective(environ={name: "a" * 32})


def test_a_misspelt_secret_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        _effective({"penstock.rest.tokens": "hush"})
    assert "hush" not in str(caught.value)


def test_a_key_that_reads_like_one_without_effect_names_that_one_once(said: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        _effective({"pipeline.jar": "a.jar"})
    assert [record.message for record in said.records] == ["There is no key pipeline.jar; did you mean pipeline.jars?"]


@pytest.mark.behaviour(200)
@pytest.mark.parametrize("key", ["metrics.reporter.prim.port", "akka.ask.timeout", "fs.hdfs.limit.input"])
def test_a_key_that_flink_has_is_never_refused(key: str) -> None:
    assert _effective({key: "9"}).get_string(key, "") == "9"


def test_no_key_of_flinks_is_refused() -> None:
    text = resources.files("penstock.common").joinpath("flink_keys.txt").read_text(encoding="utf-8")
    keys = [line.replace("<", "").replace(">", "") for line in text.splitlines() if not line.startswith("#")]
    unknown = {key: "9" for key in keys if key not in option_table.KNOWN_KEYS}
    assert len(unknown) > 1_000
    assert _effective(unknown).key_set() == unknown.keys()


def test_the_list_of_flinks_keys_has_each_of_them_that_penstock_knows() -> None:
    ours = ("penstock.", "s3.", "fs.s3a.")
    others = {key for key in option_table.KNOWN_KEYS if not key.startswith(ours) and not is_flinks(key)}
    assert others == {
        "execution.savepoint.restore-mode",
        "execution.batch.job-recovery.operator-coordinator-snapshot.min-pause",
    }, "names of versions before 2.0"


def test_an_unknown_key_of_flinks_is_kept_and_said_once(said: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        config = _effective({"taskmanager.memory.process.size": "4 gb"})
        assert config.get_string("taskmanager.memory.process.size", "") == "4 gb"
    assert len(said.records) == 1
    assert "taskmanager.memory.process.size" in said.text


def test_a_programs_own_key_is_kept_silently(said: pytest.LogCaptureFixture) -> None:
    assert _effective({"myjob.limit": "5"}).get_integer("myjob.limit", 0) == 5
    assert said.records == []


def test_a_key_without_effect_is_said_once_with_the_reason(said: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        _effective({"execution.checkpointing.max-concurrent-checkpoints": "3"})
    assert len(said.records) == 1
    assert "max-concurrent-checkpoints = 3 has no effect: an epoch ends in one checkpoint" in said.text


@pytest.mark.behaviour(6, 162)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.checkpointing.checkpoints-after-tasks-finish", "false"),
        ("execution.checkpointing.max-concurrent-checkpoints", "2"),
        ("execution.checkpointing.unaligned.enabled", "true"),
        ("execution.checkpointing.aligned-checkpoint-timeout", "1 s"),
    ],
)
def test_settings_without_effect_on_epochs_are_accepted_and_said_once(
    said: pytest.LogCaptureFixture, key: str, value: str
) -> None:
    for _ in range(2):
        _effective({key: value})
    [record] = said.records
    assert f"{key} = {value} has no effect: " in record.getMessage()


def test_a_key_without_effect_at_its_default_is_not_worth_a_word(said: pytest.LogCaptureFixture) -> None:
    _effective(
        {"execution.checkpointing.max-concurrent-checkpoints": "1", "execution.checkpointing.mode": "exactly_once"}
    )
    assert said.records == []


def test_keys_that_do_not_fit_each_other_are_an_error_whichever_places_set_them() -> None:
    key = "restart-strategy.exponential-delay.initial-backoff"
    with pytest.raises(ConfigurationError, match="max-backoff, which is 1 min") as caught:
        _effective({key: "2 min"})
    assert (caught.value.key, caught.value.value) == (key, "2 min")
    environ = {"PENSTOCK_RESTART_STRATEGY__EXPONENTIAL_DELAY__MAX_BACKOFF": "5 min"}
    backoff = _effective({key: "2 min"}, environ=environ).get(restart_options.EXPONENTIAL_INITIAL_BACKOFF)
    assert backoff.to_millis() == 120_000


def test_claim_mode_legacy_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigurationError, match="take CLAIM to own them or NO_CLAIM to leave them"):
        _effective({"execution.savepoint-restore-mode": "LEGACY"})


def test_command_line_wins_over_the_file_and_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("{parallelism.default: 2, pipeline.name: file, pipeline.max-parallelism: 8}")
    options = {"parallelism.default": "3", "pipeline.name": "line"}
    environ = {
        "PENSTOCK_RUN_OPTIONS": json.dumps(options),
        "PENSTOCK_PIPELINE__NAME": "environment",
        "PENSTOCK_PIPELINE__OBJECT_REUSE": "true",
    }
    effective = effective_configuration(Configuration(), tmp_path, environ)
    assert effective.get(option_table.PARALLELISM) == 3
    assert effective.get(option_table.JOB_NAME) == "line"
    assert effective.to_dict()["pipeline.object-reuse"] == "true"
    assert effective.get(option_table.MAX_PARALLELISM) == 8


def test_bad_value_of_the_command_line_is_told_with_its_place() -> None:
    environ = {"PENSTOCK_RUN_OPTIONS": json.dumps({"parallelism.default": "many"})}
    with pytest.raises(ConfigurationError, match="set in the command line"):
        effective_configuration(Configuration(), None, environ)
