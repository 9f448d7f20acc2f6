"""A real Kubernetes API on this machine: etcd, kube-apiserver and kube-controller-manager, built once; no kubelet.

Go gets their sources from the module proxy, in the versions of ``requirements/kubernetes``. Objects are checked,
stored, watched and owned as in any cluster, and access is granted by RBAC; but there is no node, so no pod runs.
"""

from __future__ import annotations

import json
import shutil
import ssl
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.services.cache import kept, run
from tests.services.golang import go_for
from tests.services.process import ServerProcess, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VERSION: Final = "1.34.4"
_MODULE: Final = Path(__file__).parents[2] / "requirements" / "kubernetes"
_PROGRAMS: Final = (
    "go.etcd.io/etcd/server/v3",
    *(f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager")),
)
#: The token and the group of who may do all.
_ADMIN: Final = "penstock-tests"
#: Where objects of a kind lie, and what their path ends with.
_PATHS: Final = {
    **dict.fromkeys(("ConfigMap", "PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount"), "api/v1"),
    **dict.fromkeys(("Deployment", "StatefulSet"), "apis/apps/v1"),
    "Job": "apis/batch/v1",
    **dict.fromkeys(("Role", "RoleBinding"), "apis/rbac.authorization.k8s.io/v1"),
}
#: Every request is noted with its user and the code of its answer.
_AUDIT: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
"""


def why_missing() -> str | None:
    """Return what this machine lacks; None where it has all but Go, which pip may bring."""
    return None if shutil.which("openssl") else "the Kubernetes API of the tests needs the command openssl"


def programs() -> Path:
    """Return the directory of the programs, which are built now if need be: ten minutes of two processors, and 3 GB."""
    return kept(f"kubernetes-{VERSION}", _build)


def _build(directory: Path) -> None:
    sys.stdout.write("Building a Kubernetes API for tests: ten minutes or more, this once.\n")
    sys.stdout.flush()
    major, minor, _ = VERSION.split(".")
    told = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(("-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in told.items())))
    with tempfile.TemporaryDirectory(prefix="penstock-go-") as place:
        go = go_for("The tests of Kubernetes", Path(place))
        command = (go, "build", "-C", _MODULE, "-trimpath", "-ldflags", flags, "-o", f"{directory}/", *_PROGRAMS)
        run("Building the Kubernetes API", *command, variables={"CGO_ENABLED": "0"})
    (directory / "server").rename(directory / "etcd")


class ApiError(Exception):
    """An answer that is not the wanted one.

    Args:
        code: Of HTTP.
        message: What the server says.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class Kubernetes:
    """One API server with its controllers, on free ports, with a directory of its own that goes with it."""

    def __init__(self) -> None:
        self._programs = programs()
        self._place = Path(tempfile.mkdtemp(prefix="penstock-kubernetes-"))
        names = ("etcd", "kube-apiserver", "kube-controller-manager")
        for name in names:
            (self._place / name).mkdir()
        self._processes = {name: ServerProcess(name, self._place / name) for name in names}
        self._port, self._etcd = free_port(), f"http://127.0.0.1:{free_port()}"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def certificate(self) -> Path:
        """The certificate that the server has made for itself, which clients have to trust."""
        return self._place / "kube-apiserver" / "apiserver.crt"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes.values()):
            process.end()
        shutil.rmtree(self._place, ignore_errors=True)

    def _start(self) -> None:
        peers = f"http://127.0.0.1:{free_port()}"
        etcd = {
            "data-dir": self._place / "etcd" / "data",
            **dict.fromkeys(("listen-client-urls", "advertise-client-urls"), self._etcd),
            **dict.fromkeys(("listen-peer-urls", "initial-advertise-peer-urls"), peers),
            "initial-cluster": f"default={peers}",
            "unsafe-no-fsync": "true",
        }
        self._run("etcd", etcd, self._etcd_answers)
        key, tokens, policy = (self._place / name for name in ("accounts.key", "tokens.csv", "audit.yaml"))
        run("Making a key", "openssl", "genrsa", "-out", key, "2048")
        tokens.write_text(f'{_ADMIN},{_ADMIN},{_ADMIN},"system:masters"\n')
        policy.write_text(_AUDIT)
        api = {
            "etcd-servers": self._etcd,
            "bind-address": "127.0.0.1",
            "secure-port": self._port,
            "cert-dir": self.certificate.parent,
            "endpoint-reconciler-type": "none",  # the service of the API has no address beyond this machine
            "service-cluster-ip-range": "10.96.0.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": tokens,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "audit-policy-file": policy,
            "audit-log-path": self._audited,
        }
        self._run("kube-apiserver", api, self._answers)
        user = {"name": _ADMIN, "user": {"token": _ADMIN}}
        cluster = {"name": _ADMIN, "cluster": {"server": self.url, "certificate-authority": str(self.certificate)}}
        context = {"name": _ADMIN, "context": {"cluster": _ADMIN, "user": _ADMIN}}
        clients = {"users": [user], "clusters": [cluster], "contexts": [context], "current-context": _ADMIN}
        (self._place / "clients").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **clients}))
        controllers = {
            "kubeconfig": self._place / "clients",
            "leader-elect": "false",
            "secure-port": 0,
            "service-account-private-key-file": key,
            "root-ca-file": self.certificate,
        }
        self._run("kube-controller-manager", controllers, lambda: self._has("ServiceAccount", "default"))

    def _run(self, name: str, options: Mapping[str, object], answers: Callable[[], bool]) -> None:
        words = (f"--{option}={value}" for option, value in options.items())
        self._processes[name].start([self._programs / name, *words], answers)

    def _etcd_answers(self) -> bool:
        try:
            with urlopen(f"{self._etcd}/health", timeout=2) as answer:
                return json.loads(answer.read())["health"] == "true"
        except OSError:
            return False

    def _answers(self) -> bool:
        try:
            return self.certificate.is_file() and self._ask("GET", "readyz") == "ok"
        except (ApiError, URLError, OSError):
            return False

    # ------------------------------------------------------------------------------------------------ what is in there

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """Create or change an object, as ``kubectl apply --server-side --validate=strict`` does.

        Raises:
            ApiError: The server does not take it: a field does not exist, or has a value that it cannot have.
        """
        options = urlencode({"fieldManager": _ADMIN, "fieldValidation": "Strict"})
        path = f"{_path(manifest['kind'], manifest['metadata']['name'])}?{options}"
        self._ask("PATCH", path, manifest, "application/apply-patch+yaml")

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object."""
        return self._ask("GET", _path(kind, name))

    def found(self, kind: str, **labels: str) -> list[dict[str, Any]]:
        """Return the objects of a kind that have labels, the oldest first."""
        chosen = ",".join(f"{name.replace('_', '-')}={value}" for name, value in labels.items())
        items = self._ask("GET", f"{_path(kind)}?{urlencode({'labelSelector': chosen})}")["items"]
        return sorted(items, key=lambda item: item["metadata"]["creationTimestamp"])

    def delete(self, kind: str, name: str) -> None:
        """Delete an object; what it owns goes, too."""
        self._ask("DELETE", _path(kind, name), {"propagationPolicy": "Background"})

    def fail(self, pod: str) -> None:
        """Say that a pod has failed, as the node would on which it ran."""
        content = {"status": {"phase": "Failed"}}
        self._ask("PATCH", f"{_path('Pod', pod)}/status", content, "application/merge-patch+json")

    def token(self, account: str) -> str:
        """Return a token of a service account, as its pods have one."""
        return self._ask("POST", f"{_path('ServiceAccount', account)}/token", {"spec": {}})["status"]["token"]

    def requests_of(self, account: str) -> list[tuple[str, str, int]]:
        """Return what a service account has asked for: verb, resource, and the code of the answer."""
        user = f"system:serviceaccount:default:{account}"
        events = (json.loads(line) for line in self._audited.read_text().splitlines())
        return [
            (event["verb"], event.get("objectRef", {}).get("resource", ""), event["responseStatus"]["code"])
            for event in events
            if event["user"].get("username") == user
        ]

    @property
    def _audited(self) -> Path:
        return self._place / "audit"

    def _has(self, kind: str, name: str) -> bool:
        try:
            self.get(kind, name)
        except ApiError:
            return False
        return True

    def _ask(self, method: str, path: str, content: object = None, form: str = "application/json") -> Any:
        body = None if content is None else json.dumps(content).encode()
        headers = {"Authorization": f"Bearer {_ADMIN}", "Content-Type": form}
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        try:
            with urlopen(
                Request(f"{self.url}/{path}", body, headers, method=method), timeout=30, context=trusted
            ) as it:
                text = it.read().decode()
        except HTTPError as error:
            said = error.read().decode(errors="replace")
            message = json.loads(said)["message"] if said.startswith("{") else said
            raise ApiError(error.code, message) from None
        return json.loads(text) if text.startswith("{") else text


def _path(kind: str, name: str = "") -> str:
    return f"{_PATHS[kind]}/namespaces/default/{kind.lower()}s{name and '/'}{name}"
