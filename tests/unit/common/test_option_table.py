"""One row per key: its default, another value that it can have, and one that it cannot have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.kit.cells import cells

from penstock.common import option_table
from penstock.common.config_loading import effective_configuration
from penstock.common.config_options import ConfigOption
from penstock.common.configuration import Configuration
from penstock.common.option_table import KNOWN_KEYS, OPTIONS
from penstock.common.unread_options import UNREAD
from penstock.errors import ConfigurationError


class Case(NamedTuple):
    """Values as text; ``default`` None: the key has none; ``bad`` None: every text will do."""

    default: str | None
    other: str
    bad: str | None


_ANY_TEXT = Case(None, "some text", None)
_OFF = Case("false", "true", "maybe")
_ON = Case("true", "false", "maybe")
_EXPONENTIAL = "restart-strategy.exponential-delay"
_AUTO = "execution.batch.adaptive.auto-parallelism"
_RECOVERY = "execution.batch.job-recovery"

CASES: dict[str, Case] = {
    "execution.runtime-mode": Case("STREAMING", "AUTOMATIC", "FAST"),
    "parallelism.default": Case("1", "4", "0"),
    "execution.job-listeners": Case("[]", "[jobs.Announce, jobs.Count]", "[jobs"),
    "metrics.reporters": Case(None, "prom, jmx", None),
    "metrics.reporter.prom.factory.class": _ANY_TEXT,
    "metrics.reporter.prom.port": Case(None, "9249-9260", "any"),
    "metrics.reporter.prom.host": Case(None, "0.0.0.0", None),
    "pipeline.max-parallelism": Case("-1", "128", "32769"),
    "pipeline.name": _ANY_TEXT,
    "pipeline.global-job-parameters": Case("{}", "{a: b}", "a"),
    "pipeline.auto-watermark-interval": Case("200 ms", "0 ms", "fast"),
    "pipeline.operator-chaining.enabled": _ON,
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism": _ON,
    "pipeline.auto-generate-uids": _ON,
    "pipeline.watermark-alignment.allow-unaligned-source-splits": _OFF,
    "pipeline.watermark-alignment.buffer-size": Case("3", "0", "-1"),
    "pipeline.object-reuse": _OFF,
    "execution.buffer-timeout.interval": Case("100 ms", "0 ms", "soon"),
    "execution.checkpointing.interval": Case(None, "10 ms", "9 ms"),
    "execution.checkpointing.interval-during-backlog": Case(None, "0 ms", "9 ms"),
    "execution.checkpointing.mode": Case("EXACTLY_ONCE", "AT_LEAST_ONCE", "ONCE"),
    "execution.checkpointing.timeout": Case("10 min", "20 s", "1 ms"),
    "execution.checkpointing.min-pause": Case("0 ms", "5 s", "long"),
    "execution.checkpointing.max-concurrent-checkpoints": Case("1", "2", "0"),
    "execution.checkpointing.tolerable-failed-checkpoints": Case("0", "3", "-1"),
    "execution.checkpointing.externalized-checkpoint-retention": Case(
        "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS", "KEEP"
    ),
    "execution.checkpointing.checkpoints-after-tasks-finish": _ON,
    "execution.checkpointing.unaligned.enabled": _OFF,
    "execution.checkpointing.unaligned.forced": _OFF,
    "execution.checkpointing.aligned-checkpoint-timeout": Case("0 ms", "1 s", "soon"),
    "execution.checkpointing.num-retained": Case("2", "5", "0"),
    "execution.checkpointing.dir": _ANY_TEXT,
    "execution.checkpointing.savepoint-dir": _ANY_TEXT,
    "execution.checkpointing.data-inline-threshold": Case("20 kb", "1 mb", "some"),
    "execution.checkpointing.storage": _ANY_TEXT,
    "execution.checkpointing.incremental": _ON,
    "execution.checkpointing.snapshot-compression": _ON,
    "state.backend.type": _ANY_TEXT,
    "state.changelog.enabled": Case(None, "true", "maybe"),
    "execution.state-recovery.path": Case(None, "latest", None),
    "execution.state-recovery.claim-mode": Case("NO_CLAIM", "CLAIM", "LEGACY"),
    "execution.state-recovery.ignore-unclaimed-state": _OFF,
    "s3.endpoint": _ANY_TEXT,
    "s3.region": _ANY_TEXT,
    "s3.path.style.access": Case(None, "true", "maybe"),
    "s3.access-key": _ANY_TEXT,
    "s3.secret-key": _ANY_TEXT,
    "s3.session-token": _ANY_TEXT,
    "restart-strategy.type": Case(None, "fixed-delay", "never"),
    "restart-strategy.fixed-delay.attempts": Case("1", "10", "-1"),
    "restart-strategy.fixed-delay.delay": Case("1 s", "2 min", "soon"),
    "restart-strategy.failure-rate.max-failures-per-interval": Case("1", "3", "-1"),
    "restart-strategy.failure-rate.failure-rate-interval": Case("1 min", "2 h", "often"),
    "restart-strategy.failure-rate.delay": Case("1 s", "5 s", "soon"),
    f"{_EXPONENTIAL}.initial-backoff": Case("1 s", "5 s", "0 s"),
    f"{_EXPONENTIAL}.max-backoff": Case("1 min", "5 min", "0 s"),
    f"{_EXPONENTIAL}.backoff-multiplier": Case("1.5", "2.0", "1.0"),
    f"{_EXPONENTIAL}.reset-backoff-threshold": Case("1 h", "10 min", "late"),
    f"{_EXPONENTIAL}.jitter-factor": Case("0.1", "0.0", "1.1"),
    f"{_EXPONENTIAL}.attempts-before-reset-backoff": Case("2147483647", "5", "0"),
    "source.reader.element.queue.capacity": Case("2", "8", "0"),
    "source.reader.close.timeout": Case("30 s", "1 min", "late"),
    "sink.committer.retries": Case("10", "0", "-1"),
    "execution.sort-partition.memory": Case("128 mb", "1 gb", "much"),
    "execution.sort-keyed-partition.memory": Case("128 mb", "1 gb", "much"),
    "execution.sorted-inputs.memory": Case("128 mb", "1 gb", "much"),
    "execution.batch-shuffle-mode": Case("ALL_EXCHANGES_BLOCKING", "ALL_EXCHANGES_PIPELINED", "NONE"),
    f"{_RECOVERY}.enabled": _OFF,
    "penstock.batch.accept-changed-functions": _OFF,
    "high-availability.storageDir": _ANY_TEXT,
    f"{_RECOVERY}.previous-worker.recovery.timeout": Case("30 s", "1 min", "late"),
    f"{_RECOVERY}.snapshot.min-pause": Case("3 min", "1 s", "late"),
    "job-event.store.write-buffer.size": Case("1 mb", "64 kb", "much"),
    "job-event.store.write-buffer.flush-interval": Case("1 s", "100 ms", "soon"),
    f"{_AUTO}.enabled": _ON,
    f"{_AUTO}.min-parallelism": Case("1", "2", "0"),
    f"{_AUTO}.max-parallelism": Case("128", "16", "0"),
    f"{_AUTO}.avg-data-volume-per-task": Case("16 mb", "1 gb", "much"),
    f"{_AUTO}.default-source-parallelism": Case(None, "3", "0"),
    "execution.batch.speculative.enabled": _OFF,
    "execution.batch.speculative.max-concurrent-executions": Case("2", "3", "0"),
    "web.exception-history-size": Case("16", "4", "0"),
    "rest.port": Case("8081", "0", "65536"),
    "rest.bind-port": Case(None, "8081-8090,9000", "here"),
    "rest.bind-address": _ANY_TEXT,
    "rest.address": _ANY_TEXT,
    "rest.async.store-duration": Case("5 min", "1 h", "long"),
    "jobstore.expiration-time": Case("1 h", "60", "long"),
    "python.files": Case("[]", "/a.py,/b.py", "[a.py"),
    "python.archives": Case("[]", "[/a.zip#data]", "[a.zip"),
    "python.requirements": Case("[]", "/a.txt#/cache", "[a.txt"),
    "pipeline.cached-files": Case("[]", "name:a,path:/a;name:b,path:/b", "[name"),
    "pipeline.jars": Case("[]", "a.jar;b.jar", "[a.jar"),
    "pipeline.classpaths": Case("[]", "[file:/a]", "[a"),
    "penstock.local.slots": Case(None, "3", "0"),
    "penstock.spark.slots": Case(None, "3", "0"),
    "penstock.spark.executors": Case("1", "3", "0"),
    "penstock.spark.executors-timeout": Case("1 min", "10 s", "soon"),
    "penstock.exchange": Case("blocking", "pipelined", "streaming"),
    "penstock.exchange.trusted-network": _OFF,
    "python.executable": _ANY_TEXT,
    "python.state.cache-size": Case("1000", "0", "-1"),
    "python.fn-execution.bundle.size": Case("1000", "1", "0"),
    "python.fn-execution.bundle.time": Case("1 s", "10 ms", "soon"),
    "high-availability.type": _ANY_TEXT,
    "high-availability.cluster-id": _ANY_TEXT,
    "taskmanager.registration.timeout": Case("5 min", "1 min", "long"),
    "jobmanager.scheduler": _ANY_TEXT,
    "task.cancellation.interval": Case("30 s", "1 s", "soon"),
    "task.cancellation.timeout": Case("3 min", "1 s", "soon"),
    "metrics.latency.interval": Case("0 ms", "1 s", "soon"),
    "penstock.allow-first-start": Case(None, "true", "maybe"),
    "penstock.takeover": _ON,
    "penstock.job-id": Case(None, "0123456789abcdef0123456789abcdef", "0123"),
    "penstock.batch.combine": _ON,
    "penstock.state.memory": Case("256 mb", "1 gb", "lots"),
    "penstock.state.private-files": _ON,
    "penstock.state.signing-key": _ANY_TEXT,
    "penstock.log.format": Case(None, "json", "xml"),
    "penstock.log.level": Case("INFO", "DEBUG", "LOUD"),
    "penstock.sensitive-words": Case("[]", "pin;plate", "[a"),
    "penstock.class-data-archive.enabled": _ON,
    "penstock.progress.enabled": _OFF,
    "penstock.rest.enabled": _ON,
    "penstock.rest.read-only-token": _ANY_TEXT,
    "penstock.rest.allowed-directories": Case(None, "[/data/savepoints]", "[data"),
    "penstock.rest.behind-proxy": _OFF,
    "penstock.rest.private-key": Case(None, "/data/key.pem", "s3://bucket/key.pem"),
    "security.ssl.rest.enabled": _OFF,
    "security.ssl.rest.keystore": Case(None, "/data/rest.pem", "s3://bucket/rest.pem"),
    "security.ssl.rest.keystore-type": _ANY_TEXT,
    "security.ssl.rest.key-password": _ANY_TEXT,
    "security.ssl.rest.authentication-enabled": _OFF,
    "security.ssl.rest.truststore": Case(None, "/data/clients.pem", "s3://bucket/clients.pem"),
    "security.ssl.rest.truststore-type": _ANY_TEXT,
    "penstock.rest.token": _ANY_TEXT,
    "penstock.rest.registry-dir": _ANY_TEXT,
    "jobmanager.archive.fs.dir": _ANY_TEXT,
    "penstock.committables": Case("[]", "[7-0-5f=skip]", "[7-0-5f=skip"),
    "penstock.restart-finished-sources": Case("[]", "[orders, users]", "[orders"),
    "penstock.drain.fire-processing-time-timers": _OFF,
}
ALIASES = {
    "pipeline.operator-chaining": "pipeline.operator-chaining.enabled",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": (
        "execution.checkpointing.checkpoints-after-tasks-finish"
    ),
    "execution.checkpointing.unaligned": "execution.checkpointing.unaligned.enabled",
    "state.checkpoints.num-retained": "execution.checkpointing.num-retained",
    "state.checkpoints.dir": "execution.checkpointing.dir",
    "state.savepoints.dir": "execution.checkpointing.savepoint-dir",
    "execution.savepoint.path": "execution.state-recovery.path",
    "execution.savepoint-restore-mode": "execution.state-recovery.claim-mode",
    "execution.savepoint.ignore-unclaimed-state": "execution.state-recovery.ignore-unclaimed-state",
    "restart-strategy": "restart-strategy.type",
    f"{_RECOVERY}.operator-coordinator-snapshot.min-pause": f"{_RECOVERY}.snapshot.min-pause",
    "$internal.pipeline.job-id": "penstock.job-id",
}
BY_KEY = cells("key", list(CASES))


def _value(key: str, configuration: Configuration) -> str | None:
    """Return an option's value as canonical text."""
    value = configuration.get(OPTIONS[key])
    return None if value is None else OPTIONS[key].value_type.format(value)


def _canonical(key: str, text: str) -> str:
    kind: Any = OPTIONS[key].value_type
    return kind.format(kind.parse(text))


def _variable(key: str) -> str:
    return "PENSTOCK_" + key.removeprefix("penstock.").upper().replace(".", "__").replace("-", "_")


def test_every_key_has_a_row() -> None:
    assert set(OPTIONS) - set(CASES) == set(), "add a Case for each of these keys to CASES above"
    assert set(CASES) - set(OPTIONS) == set(), "there is no such key"


@BY_KEY
def test_default(key: str) -> None:
    assert _value(key, Configuration()) == CASES[key].default


@BY_KEY
def test_the_environment_overrides_the_default(key: str) -> None:
    configuration = effective_configuration(Configuration(), None, {_variable(key): CASES[key].other})
    assert _value(key, configuration) == _canonical(key, CASES[key].other) != CASES[key].default


@BY_KEY
def test_the_file_overrides_the_default(key: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"{key}: {CASES[key].other}\n", encoding="utf-8")
    configuration = effective_configuration(Configuration(), tmp_path, {})
    assert _value(key, configuration) == _canonical(key, CASES[key].other)


@cells("key", [key for key, case in CASES.items() if case.bad is not None])
@pytest.mark.behaviour(160, 167)
def test_a_bad_value_is_rejected_with_the_keys_name(key: str) -> None:
    program = Configuration().set_string(key, CASES[key].bad or "")
    with pytest.raises(ConfigurationError) as caught:
        effective_configuration(program, None, {})
    assert caught.value.key == key
    assert str(caught.value).startswith(f"{key} cannot be {CASES[key].bad!r}")


@cells("alias, key", list(ALIASES.items()))
def test_an_older_name_sets_the_key(alias: str, key: str) -> None:
    program = Configuration().set_string(alias, CASES[key].other)
    assert _value(key, effective_configuration(program, None, {})) == _canonical(key, CASES[key].other)


@BY_KEY
def test_every_key_says_what_it_does_in_one_clause(key: str) -> None:
    option = OPTIONS[key]
    assert option.effect
    assert not option.effect.endswith(".")
    assert not option.no_effect.endswith(".")


def test_every_key_of_the_table_is_read_somewhere() -> None:
    table = Path(option_table.__file__)
    modules = (path for path in table.parents[1].rglob("*.py") if path != table)
    read = {name for path in modules for name in re.findall(r"\b[A-Z][A-Z0-9_]+\b", path.read_text(encoding="utf-8"))}
    table_names = {name for name, value in vars(option_table).items() if isinstance(value, ConfigOption)}
    assert table_names - read == set()


def test_every_key_that_nothing_reads_says_why() -> None:
    assert UNREAD
    assert [option.key for option in UNREAD if not option.no_effect] == []


def test_no_name_stands_for_two_keys() -> None:
    names = [name for option in OPTIONS.values() for name in (option.key, *option.aliases)]
    assert len(names) == len(set(names)) == len(KNOWN_KEYS)
