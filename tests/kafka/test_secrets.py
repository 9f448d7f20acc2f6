"""SASL over TLS by a whole job, with Java's stores; and no password comes out of it."""

from __future__ import annotations

import logging
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.fault.job import are_truth
from tests.hostile.planted import Planted
from tests.kafka.job import PARTITIONS, Route, counting, sink_into
from tests.services.kafka import PASSWORD, USER
from tests.unit.rest.fakes import Api

from penstock._engine.rest.app import ROUTES
from penstock.errors import JobExecutionError, KafkaConnectorError, KafkaPropertyError
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.conftest import Topics
    from tests.services.kafka import SharedServer

pytestmark = pytest.mark.kafka

NUMBERS = 1000
STORE_PASSWORD = "of-the-store-41"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def route(topics: Topics, server: SharedServer, password: str, **trust: str) -> Route:
    """Return a route by Java's properties whose topic of numbers is filled."""
    made = Route(server.sasl_bootstrap, topics.new(PARTITIONS), topics.new(2), {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULE} username="{USER}" password="{password}";',
        **(trust or {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(server.certificate)}),
    })  # fmt: skip
    topics.fill(made.numbers, [str(number) for number in range(NUMBERS)])
    return made


def answers(driver: Any) -> dict[str, str]:
    """Return what each route shows of a job."""
    api = Api(driver)
    job = driver.view.job_id
    vertices = [each["id"] for each in api.get(f"/jobs/{job}")["vertices"]]
    names = {"jobid": job, "vertexid": vertices[0], "checkpointid": "1", "subtaskindex": "0", "attempt": "0"}
    paths = {route.path for route in ROUTES if route.method == "GET" and "cancel" not in route.path}
    texts: dict[str, str] = {}
    for path in sorted(path for path in paths if "stop" not in path):
        for name, value in names.items():
            path = path.replace(f"{{{name}}}", value)  # noqa: PLW2901
        if "{" not in path:
            texts[path] = api.ask("GET", path).text
    return texts


def files(place: Path) -> dict[str, str]:
    return {str(path): path.read_bytes().decode("latin-1") for path in place.rglob("*") if path.is_file()}


def test_no_password_of_a_job_stands_in_logs_answers_and_checkpoints(
    topics: Topics, server: SharedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    planted = Planted({"sasl": PASSWORD})
    made = route(topics, server, PASSWORD)
    job, outputs = counting(made, tmp_path), dict[str, str]()
    job.at_epoch(4, lambda: outputs.update(answers(job.driver)))
    with caplog.at_level(logging.DEBUG):
        job.to_end()
    assert are_truth(topics.values(made.counts, 2), NUMBERS)
    assert len(outputs) > 10
    assert "into Kafka" in "".join(outputs.values())
    outputs |= files(tmp_path / "checkpoints") | files(tmp_path / "state")
    assert any("_metadata" in name for name in outputs)
    outputs |= {"log": caplog.text, "source": repr(made.source().build()), "sink": repr(vars(made.sink()))}
    outputs |= dict(zip(("out", "error"), capfd.readouterr(), strict=True))
    assert planted.found_in(outputs) == []


def test_a_wrong_password_fails_the_job_and_is_not_told(
    topics: Topics, server: SharedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "a-wrong-one-99"
    made = route(topics, server, wrong)
    with pytest.raises(JobExecutionError, match=r"(?i)KafkaConnectorError: .*authentication") as refused:
        counting(made, tmp_path, restart="none").to_end()
    assert wrong not in str(refused.value) + repr(refused.value.__cause__) + caplog.text
    run = SinkRun(sink_into(made.bootstrap, made.counts, made.properties))
    with pytest.raises(KafkaConnectorError, match=r"(?i)authentication") as refused_write:
        run.epoch(["a"])
    run.close()
    assert wrong not in str(refused_write.value) + caplog.text


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs a JDK, whose keytool makes the store")
def test_a_store_of_java_is_refused_with_the_way_to_a_file_that_works(
    topics: Topics, server: SharedServer, tmp_path: Path
) -> None:
    store, exported = tmp_path / "trusted.jks", tmp_path / "trusted.pem"
    keytool = ("keytool", "-keystore", str(store), "-storepass", STORE_PASSWORD, "-alias", "broker")
    taken = ("-importcert", "-noprompt", "-storetype", "JKS", "-file", str(server.certificate))
    subprocess.run([*keytool, *taken], check=True, capture_output=True)
    java = {"ssl.truststore.location": str(store), "ssl.truststore.password": STORE_PASSWORD}
    made = route(topics, server, PASSWORD, **java)
    with pytest.raises(KafkaPropertyError, match=r"keytool -exportcert -rfc.*ssl\.truststore\.type=PEM") as refused:
        made.bounded().build()
    assert STORE_PASSWORD not in str(refused.value)
    subprocess.run([*keytool, "-exportcert", "-rfc", "-file", str(exported)], check=True, capture_output=True)
    pem = {"ssl.truststore.location": str(exported), "ssl.truststore.type": "PEM"}
    made = route(topics, server, PASSWORD, **pem)
    counting(made, tmp_path, records=NUMBERS).to_end()
    assert are_truth(topics.values(made.counts, 2), NUMBERS)
