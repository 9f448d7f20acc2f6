"""Sessions on a real Kubernetes API, with the manifests of the documents: no pod runs, as there is no node.

So nothing here shows that a job runs there. It shows that the manifests are taken, that the rights in them are those
that Spark needs, which pods Spark asks for and when they go, and what a user is told where none comes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pyspark
import pytest
from tests.docs.supervised import DOCUMENT, OF_CLUSTERS, manifests, pod
from tests.services import kubernetes as service
from tests.services.kubernetes import Kubernetes

from penstock._engine.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    *(pytest.mark.spark, pytest.mark.fault),
    pytest.mark.skipif("PENSTOCK_TEST_KUBERNETES" not in os.environ, reason="builds a Kubernetes: for the campaign"),
]

EXECUTORS: Final = 4
PATIENCE_S: Final = 180
#: How long a job waits for executors that never come.
WAIT_S: Final = 45
PROGRAM: Final = """
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).print()
env.execute("orders")
"""


@pytest.fixture(scope="module")
def api() -> Iterator[Kubernetes]:
    """An API with the manifests of docs/cluster.md; where it cannot be had, a test is skipped, and fails in CI."""
    reason = service.why_missing()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with Kubernetes() as kubernetes:
        for manifest in manifests(OF_CLUSTERS).values():
            kubernetes.apply(manifest)
        yield kubernetes


@pytest.fixture(autouse=True)
def _driver_pod(api: Kubernetes) -> None:
    wait_for("the driver's pod", lambda: any(names(api.found("Pod", app="orders"))))


def wait_for(what: str, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.1)


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


def executors(api: Kubernetes) -> list[dict[str, Any]]:
    return api.found("Pod", spark_role="executor")


def is_there(api: Kubernetes, end: str) -> bool:
    """Tell whether there is an executor whose name ends so."""
    return any(name.endswith(end) for name in names(executors(api)))


def of_session(api: Kubernetes) -> list[str]:
    """Return the names of all that sessions have made and that is still there."""
    kinds = ("Pod", "ConfigMap", "Service", "PersistentVolumeClaim")
    return [f"{kind} {name}" for kind in kinds for name in names(api.found(kind, spark_role="executor"))]


def container_variables(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container["env"]}


class Program:
    """A program on this machine, with settings and variables of the driver's pod, and a token as its account has one.

    Args:
        api: The cluster.
        place: Its own directory.
        account: The service account.
        patience_s: How long its job waits for executors.
    """

    def __init__(self, api: Kubernetes, place: Path, account: str, patience_s: int) -> None:
        found = manifests(OF_CLUSTERS)
        (container,) = pod(found["StatefulSet"])["containers"]
        for name, text in found["ConfigMap"]["data"].items():
            (place / name).write_text(text)
        (place / "job.py").write_text(PROGRAM)
        (place / "token").write_text(api.token(account))
        self._log = place / "log"
        variables = {
            "HOME": str(place),
            "JAVA_HOME": str(find_java(pyspark.__version__).home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            **container_variables(container),
            # In a pod the client finds these by itself.
            "KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN": str(place / "token"),
            "KUBERNETES_CERTS_CA_FILE": str(api.certificate),
            "SPARK_MASTER": f"k8s://{api.url}",
            "SPARK_CONF_DIR": str(place),
            "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
            "PENSTOCK_EXECUTION__CHECKPOINTING__DIR": str(place / "checkpoints"),
            "PENSTOCK_EXECUTION__CHECKPOINTING__SAVEPOINT_DIR": str(place / "savepoints"),
            "PENSTOCK_ALLOW_FIRST_START": "true",
            "PENSTOCK_REST__ENABLED": "false",
        }
        waits = f"penstock.spark.executors-timeout={patience_s}s"
        command = [sys.executable, "-m", "penstock", "run", "-D", waits, str(place / "job.py")]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> str:
        """Wait for its end, which is an error, and return what it said."""
        assert self.process.wait(PATIENCE_S) == 75, self.log
        return self.log


@pytest.mark.parametrize("document", [DOCUMENT, OF_CLUSTERS], ids=lambda path: path.name)
def test_manifests_of_the_documents_are_taken_with_every_field(api: Kubernetes, document: Path) -> None:
    for manifest in manifests(document).values():
        api.apply(manifest)
        assert api.get(manifest["kind"], manifest["metadata"]["name"])["metadata"]["uid"]


def test_misspelt_field_of_a_manifest_is_refused(api: Kubernetes) -> None:
    manifest = manifests(OF_CLUSTERS)["StatefulSet"]
    pod(manifest)["serviceAcountName"] = "spark"
    with pytest.raises(service.ApiError, match="serviceAcountName"):
        api.apply(manifest)


def test_pod_of_the_driver_has_the_account_and_the_settings(api: Kubernetes) -> None:
    driver = api.get("Pod", "orders-0")["spec"]
    (container,) = driver["containers"]
    assert driver["serviceAccountName"] == "spark"
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    (settings,) = (volume for volume in driver["volumes"] if volume["name"] == mounted["/etc/spark"])
    assert settings["configMap"]["name"] == "orders"
    assert "/var/run/secrets/kubernetes.io/serviceaccount" in mounted  # the account's token


def test_session_asks_for_the_executors_of_the_manifest_and_takes_them_away_at_its_end(
    api: Kubernetes, tmp_path: Path
) -> None:
    with Program(api, tmp_path, "spark", WAIT_S) as program:
        wait_for("each executor's pod", lambda: len(executors(api)) == EXECUTORS)
        found = executors(api)
        api.delete("Pod", names(found)[0])
        wait_for("another pod", lambda: is_there(api, "-exec-5"))
        api.fail(names(found)[1])
        wait_for("one for the pod that failed", lambda: is_there(api, "-exec-6"))
        wait_for("the end of the pod that failed", lambda: names(found)[1] not in names(executors(api)))
        assert len(executors(api)) == EXECUTORS
        said = program.end()
        assert not of_session(api)  # a container would have ended with the process, and its JVM with it
    assert f"no executor has come within penstock.spark.executors-timeout = {WAIT_S} s: the cluster may have no" in said
    application = found[0]["metadata"]["labels"]["spark-app-selector"]
    assert f"`kubectl describe pods -l spark-app-selector={application}`" in said
    # The rights of the manifest are those that it used.
    assert not [asked for asked in api.requests_of("spark") if asked[-1] == 403]
    given = {
        (verb, resource)
        for rule in manifests(OF_CLUSTERS)["Role"]["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    assert {(verb, resource) for verb, resource, _ in api.requests_of("spark")} == given
    for number, each in enumerate(sorted(found, key=lambda one: one["metadata"]["name"]), 1):
        assert each["metadata"]["name"].startswith("orders-")
        assert each["metadata"]["name"].endswith(f"-exec-{number}")
        assert each["metadata"]["labels"]["spark-app-name"] == "orders"
        assert [owner["name"] for owner in each["metadata"]["ownerReferences"]] == ["orders-0"]
        (container,) = each["spec"]["containers"]
        assert each["spec"]["serviceAccountName"] == "spark"
        assert container["image"] == "registry.example.com/orders-executor:1"
        assert container["resources"]["requests"] == {"cpu": "4", "memory": "5Gi"}
        assert "@127.0.0.1:" in container_variables(container)["SPARK_DRIVER_URL"]
        volumes = {volume["name"]: volume for volume in each["spec"]["volumes"]}
        (local,) = (mount for mount in container["volumeMounts"] if "spark-local-dir" in mount["name"])
        assert "emptyDir" in volumes[local["name"]]
        assert container_variables(container)["SPARK_LOCAL_DIRS"] == local["mountPath"]


def test_executors_of_a_killed_driver_go_with_its_pod(api: Kubernetes, tmp_path: Path) -> None:
    with Program(api, tmp_path, "spark", PATIENCE_S):
        wait_for("each executor's pod", lambda: len(executors(api)) == EXECUTORS)
    left = names(executors(api))
    assert left
    before = api.get("Pod", "orders-0")["metadata"]["uid"]
    api.delete("Pod", "orders-0")
    wait_for("the end of its executors", lambda: not of_session(api))
    wait_for("another driver", lambda: any(names(api.found("Pod", app="orders"))))
    assert api.get("Pod", "orders-0")["metadata"]["uid"] != before


def test_error_names_what_a_service_account_may_not_do(api: Kubernetes, tmp_path: Path) -> None:
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stranger"}})
    with Program(api, tmp_path, "stranger", WAIT_S) as program:
        said = program.end().splitlines()[-1]
    assert said.startswith(f"penstock.errors.UnsuitableClusterError: The job does not begin on k8s://{api.url}: Spark")
    assert 'User "system:serviceaccount:default:stranger" cannot get resource "pods"' in said
    assert "Status(" not in said
    assert not of_session(api)
