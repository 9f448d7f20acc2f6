"""How long REST takes to answer while a job runs at full speed, beside the same server when nothing runs.

    python benchmarks/rest.py                  a minute and a half
    python benchmarks/rest.py --seconds 10

A job that never waits: a sequence of numbers, a map, a sum by 1,000 keys, parallelism 2, on two cores, with a
checkpoint each second. A client in a process of its own asks for one path after the other, every 10 ms, over one
connection. Then the job is cancelled, and the same client asks the same server for the same job. The client's own wait
for a core counts, as it does for anybody who asks from this machine.

At last three servers stand over that job: one that wants no token, one with a token, and one with a token and TLS; and
two of uvicorn alone, whose application does nothing, with and without TLS: what TLS costs in Python whatever we do. One
client asks them in turn, path by path, so that what slows one down slows the others down, too. It is of Python as well,
and its own processor time is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import uvicorn
from environments import HERE
from figures import Figures

from penstock._engine.launch import _servers
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from penstock._engine.gateway.job_control import JobControl

PARALLELISM = 2
KEYS = 1_000
INTERVAL_MS = 1_000
#: The JVM compiles meanwhile.
WARM_UP_S = 20
#: Between two requests.
EACH_MS = 10
BAR = 5
#: What token and TLS may add to the median.
GUARD_BAR = 1.1
#: What is compared with what.
GUARDED = {
    "a token": "none",
    "a token and TLS": "none",
    "nothing behind uvicorn with TLS": "nothing behind uvicorn",
}
TOKEN = "operate-0123456789"
#: Of the answer of an application that does nothing: about those of REST.
BARE_BYTES = 3_000


def job(directory: Path) -> StreamExecutionEnvironment:
    """Return a job that does not end while anybody measures."""
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
        "penstock.rest.enabled": "true",
        "penstock.rest.registry-dir": str(directory / "registry"),
        "penstock.rest.token": "none",
        "rest.bind-port": "0",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(PARALLELISM)
    numbers = env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers")
    pairs = numbers.map(lambda number: (number % KEYS, number))
    sums = pairs.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    sums.filter(lambda _: False).print()
    return env


def answers(address: str, job_id: str, seconds: float) -> dict[str, list[float]]:
    """Return the milliseconds that each answer took, by its path."""
    paths = {"/jobs/overview": "", "/jobs/:id": f"/{job_id}", "/jobs/:id/checkpoints": f"/{job_id}/checkpoints"}
    asked = ["/v1/jobs" + (rest or "/overview") for rest in paths.values()]
    command = [sys.executable, HERE / "programs" / "rest_client.py", address, seconds, EACH_MS, *asked]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return dict(zip(paths, json.loads(done.stdout).values(), strict=True))


def report(figures: Figures, busy: dict[str, list[float]], idle: dict[str, list[float]]) -> None:
    """Add the figures of all paths."""
    for path, took in busy.items():
        for name, at in (("p50", 49), ("p99", 98)):
            running, alone = (quantiles(each, n=100)[at] for each in (took, idle[path]))
            ratio = running / alone
            value = f"{running:.1f} beside {alone:.1f} ms: {ratio:.1f} ×"  # noqa: RUF001
            figures.add(f"{path}, {name} of {len(took):,}", value, f"≤ {BAR} ×", met=ratio <= BAR)  # noqa: RUF001


def certificate(directory: Path) -> Path:
    """Make a certificate and its key, in one file."""
    made = directory / "rest.pem"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2", "-subj", "/CN=bench")
    files = ("-keyout", made, "-out", directory / "certificate.pem", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(["openssl", "req", "-x509", *kind, *files], capture_output=True, check=True)
    made.write_text(made.read_text() + (directory / "certificate.pem").read_text())
    return made


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as an application that does nothing."""
    del scope, receive
    headers = [(b"content-type", b"application/json"), (b"content-length", str(BARE_BYTES).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b" " * BARE_BYTES})


def bare_server(keystore: Path | None) -> tuple[uvicorn.Server, str]:
    """Start uvicorn as it is on a thread, and return it with its address."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    tls: dict[str, Any] = {} if keystore is None else {"ssl_certfile": keystore, "ssl_keyfile": keystore}
    quiet: dict[str, Any] = {"lifespan": "off", "log_config": None, "log_level": "critical", "access_log": False}
    config = uvicorn.Config(nothing, http="h11", ws="none", loop="asyncio", timeout_keep_alive=60, **quiet, **tls)
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    return server, f"127.0.0.1:{listening.getsockname()[1]}"


def guards(figures: Figures, control: JobControl, directory: Path, seconds: float) -> None:
    """Add what a token, and TLS with it, cost."""
    keystore = certificate(directory)
    tls = {"security.ssl.rest.enabled": "true", "security.ssl.rest.keystore": str(keystore)}
    kinds: dict[str, tuple[str, dict[str, str]]] = {
        "none": ("none", {}),
        "a token": (TOKEN, {}),
        "a token and TLS": (TOKEN, tls),
    }
    servers: list[RestServer] = []
    stops: list[uvicorn.Server] = []
    for token, more in kinds.values():
        keys = {"rest.port": "0", "penstock.rest.registry-dir": str(directory / "others"), "penstock.rest.token": token}
        server = RestServer(
            RestSettings.read(Configuration.from_dict({**keys, **more})),
            dispose=lambda _1, _2, _3: None,
        )
        server.add(control)
        server.start(PARALLELISM)
        servers.append(server)
    asked = [
        (server.address.partition("://")[2], None if token == "none" else token, str(keystore) if more else None)
        for server, (token, more) in zip(servers, kinds.values(), strict=True)
    ]
    bare = {"nothing behind uvicorn": None, "nothing behind uvicorn with TLS": keystore}
    for certified in bare.values():
        stands, address = bare_server(certified)
        stops.append(stands)
        asked.append((address, None, None if certified is None else str(certified)))
    job_id = control.view.job_id
    paths = ("/v1/jobs/overview", f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/checkpoints")
    for each_ms, spacing in ((0, "back to back"), (2, "2 ms apart")):
        command = [sys.executable, HERE / "programs" / "guarded_client.py", seconds, each_ms, *paths]
        done = subprocess.run(
            [str(part) for part in command], input=json.dumps(asked), capture_output=True, text=True, check=True
        )
        answers = json.loads(done.stdout)
        took = dict(zip((*kinds, *bare), answers["ms"], strict=True))
        own = dict(zip((*kinds, *bare), answers["client_ms"], strict=True))
        for name, beside in GUARDED.items():
            usual, guarded = median(took[beside]), median(took[name])
            ratio = guarded / usual
            clients = median(own[name]) - median(own[beside])
            value = (
                f"{guarded:.2f} beside {usual:.2f} ms: {ratio:.2f} ×; "  # noqa: RUF001
                f"{guarded - usual:+.3f} ms, of which the client {clients:+.3f}"
            )
            what = f"p50 of {len(took[name]):,} {spacing} with {name}, beside {beside}"
            if name in bare:
                figures.add(what, value)
            else:
                figures.add(what, value, f"≤ {GUARD_BAR} ×", met=ratio <= GUARD_BAR)  # noqa: RUF001
    for server in servers:
        server.close()
    for stands in stops:
        stands.should_exit = True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30, help="how long to ask, with the job and without (30)")
    arguments = parser.parse_args()
    os.environ.pop("PENSTOCK_REST__ENABLED", None)
    figures = Figures("REST while a job runs at full speed, and without")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        client = job(Path(folder)).execute_async("full speed")
        time.sleep(WARM_UP_S)
        (server,) = _servers
        address, job_id = server.address.removeprefix("http://"), str(client.get_job_id())
        answers(address, job_id, 2)
        found = server.jobs.find(job_id)
        assert found is not None
        before = found.view
        busy = answers(address, job_id, arguments.seconds)
        rate = (found.view.progress.records - before.progress.records) / (found.view.running_ms - before.running_ms)
        figures.add("The job meanwhile", f"{rate / 1e3:.2f} M records/s")
        client.cancel().result()
        while not client.get_job_status().result().is_globally_terminal_state():
            time.sleep(0.1)
        time.sleep(2)
        report(figures, busy, answers(address, job_id, arguments.seconds))
        guards(figures, found, Path(folder), arguments.seconds)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
