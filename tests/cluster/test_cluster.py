"""Jobs on a cluster whose hosts have disks of their own: exact when a host is lost, refused where they would not be."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.cluster.counts import counts_of, expected_counts, lines_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.conftest import Driver
    from tests.cluster.hosts import Cluster
    from tests.cluster.standalone import Standalone
    from tests.services.s3 import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.fault]

COUNTING = Path(__file__).with_name("counting.py")
TOTAL = 12_000
PATIENCE_S = 180

#: A job from files to files; says nothing about where its checkpoints go.
COPYING = """
import sys
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat

source, out, *settings = sys.argv[1:]
configuration = Configuration.from_dict(dict(pair.split("=", 1) for pair in settings))
env = StreamExecutionEnvironment.get_execution_environment(configuration)
files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), source).build()
lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "lines")
lines.sink_to(FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()).name("copies")
env.execute("copy")
"""
CHECKPOINTS = "execution.checkpointing.dir"

#: The same with a function of a package that has a data file, from a folder of PYTHONPATH.
IMPORTING = f"import tariffs\n{COPYING}".replace('"lines")', '"lines").map(tariffs.price)')
TARIFFS = """
from pathlib import Path

def price(count):
    return str(int(count) * int((Path(__file__).parent / "price.txt").read_text()) + {extra})
"""


#: The command, in the process of a driver, whose session already has the cores of the cluster.
LOOKING = """
import contextlib, io, json, sys
from penstock._engine.cli.main import cli

said = io.StringIO()
with contextlib.redirect_stdout(said):
    checkpoints = f"execution.checkpointing.dir={sys.argv[2]}"
    cli(["doctor", "--json", "--master", sys.argv[1], "-D", checkpoints], standalone_mode=False)
result = json.loads(said.getvalue())
"""


def test_job_is_exact_though_a_host_is_lost_with_its_disk_and_takes_the_slots_of_a_new_one(
    cluster: Standalone, driver: Driver, server: S3Server
) -> None:
    bucket = server.make_bucket("life")
    notes = cluster.shared / "notes"
    notes.mkdir()
    (notes / "hold").touch()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            *(driver.run_script, COUNTING, f"{bucket}/checkpoints", f"{bucket}/out", notes, TOTAL),
            variables=server.penstock_variables,
        )
        await_note(notes / "passed-2000", running)
        assert not (notes / "slot-2").exists()  # two hosts of one core
        cluster.lose_host(cluster.hosts[0])
        cluster.add_host(cores=2)
        await_note(notes / "slot-2", running)
        (notes / "go").touch()
        (notes / "hold").unlink()
        ended = running.result(PATIENCE_S)
    assert ended.error == "", ended.text
    assert counts_of(lines_in(server.bucket("life"), "out")) == expected_counts(TOTAL)


def test_subtasks_return_to_the_hosts_that_have_their_state(cluster: Standalone, driver: Driver) -> None:
    notes, out = cluster.shared / "returns", cluster.shared / "counted"
    notes.mkdir()
    ended = driver.run_script(COUNTING, cluster.shared / "returning", out, notes, 3_000)
    assert ended.error == "", ended.text
    assert ended.result["epochs"] > 5
    assert ended.result["returned_share"] >= 0.95, ended.result


def await_note(note: Path, running: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not note.exists():
        assert not running.done(), running.result()  # type: ignore[attr-defined]
        assert time.monotonic() < deadline, f"the job never came to {note.name}"
        time.sleep(0.05)


def job_with_places_that_hosts_do_not_share_is_refused_with_key_operator_and_path(
    cluster: Cluster, driver: Driver, server: S3Server
) -> None:
    lines = cluster.own / "lines.txt"
    lines.write_text("one\ntwo\n")
    out, checkpoints = cluster.own / "out", cluster.own / "checkpoints"
    ended = driver.run(COPYING, lines, out, f"{CHECKPOINTS}={checkpoints}")
    assert ended.error == "UnsuitableClusterError"
    for who, path in ((CHECKPOINTS, checkpoints), ("sink 'copies", out), ("source 'lines'", lines)):
        assert any(who in problem and str(path) in problem for problem in ended.text.split("; (")), ended.text
    assert not out.exists()
    assert not checkpoints.exists()


def job_without_a_checkpoint_directory_is_refused_with_the_key(
    cluster: Cluster, driver: Driver, server: S3Server
) -> None:
    ended = driver.run(COPYING, cluster.shared, cluster.shared / "never")
    assert ended.error == "UnsuitableClusterError"
    assert CHECKPOINTS in ended.text
    assert "s3://" in ended.text
    assert not (cluster.shared / "never").exists()


def credentials_in_the_drivers_environment_alone_are_found_at_the_start(
    cluster: Cluster, driver: Driver, server: S3Server
) -> None:
    bucket = server.make_bucket("unreached")
    ended = driver.run(
        COPYING, cluster.shared, f"{bucket}/out", f"{CHECKPOINTS}={bucket}/checkpoints", variables=server.variables
    )
    assert ended.error == "UnsuitableClusterError"
    assert "spark.executorEnv.AWS_" in ended.text
    assert f"{bucket}/checkpoints" in ended.text
    assert f"{bucket}/out" in ended.text
    assert server.secret_key not in ended.text


def modules_of_pythonpath_and_their_data_are_there_and_changed_ones_too_in_places_that_hosts_share(
    cluster: Cluster, driver: Driver, server: S3Server
) -> None:
    library, numbers = cluster.own / "library", cluster.shared / "numbers.txt"
    (library / "tariffs").mkdir(parents=True)
    (library / "tariffs" / "price.txt").write_text("7")
    numbers.write_text("1\n2\n")
    for extra in (0, 100):
        (library / "tariffs" / "__init__.py").write_text(TARIFFS.format(extra=extra))
        out = cluster.shared / f"priced-{extra}"
        ended = driver.run(IMPORTING, numbers, out, f"{CHECKPOINTS}={cluster.shared / 'checkpoints'}", path=library)
        assert ended.error == "", ended.text
        priced = [line for file in out.rglob("*") if file.is_file() for line in file.read_text().split()]
        assert sorted(priced, key=int) == [str(7 + extra), str(14 + extra)]


def module_that_hosts_lack_is_named_with_the_ways_to_ship_it(
    cluster: Cluster, driver: Driver, server: S3Server
) -> None:
    hidden = cluster.own / "site-packages"  # what is installed is not shipped
    hidden.mkdir()
    (hidden / "rates.py").write_text("def price(count):\n    return count\n")
    program = IMPORTING.replace("tariffs", "rates")
    out, checkpoints = cluster.shared / "never", cluster.shared / "checkpoints"
    ended = driver.run(program, cluster.shared, out, f"{CHECKPOINTS}={checkpoints}", path=hidden)
    assert ended.error == "UnsuitableClusterError"
    assert "has no module rates" in ended.text
    assert "spark.archives" in ended.text


def doctor_looks_at_the_hosts_without_a_job(cluster: Cluster, driver: Driver, server: S3Server) -> None:
    shared, own = (driver.run(LOOKING, cluster.url, place / "doctor").result for place in (cluster.shared, cluster.own))
    assert [row["verdict"] for row in shared if row["subject"].startswith("Host host-")] == ["ok", "ok"]
    (problem,) = (row for row in own if row["subject"] == "Cluster")
    assert problem["verdict"] == "failed"
    assert f"does not have {cluster.own / 'doctor'} of {CHECKPOINTS}" in problem["text"]


#: Hold on a cluster of two hosts, whatever manages it.
CHECKS: Final[list[Callable[[Cluster, Driver, S3Server], None]]] = [
    job_with_places_that_hosts_do_not_share_is_refused_with_key_operator_and_path,
    job_without_a_checkpoint_directory_is_refused_with_the_key,
    credentials_in_the_drivers_environment_alone_are_found_at_the_start,
    modules_of_pythonpath_and_their_data_are_there_and_changed_ones_too_in_places_that_hosts_share,
    module_that_hosts_lack_is_named_with_the_ways_to_ship_it,
    doctor_looks_at_the_hosts_without_a_job,
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_hosts_have_what_a_job_needs_or_the_start_says_what_they_lack(
    check: Callable[[Cluster, Driver, S3Server], None], cluster: Standalone, driver: Driver, server: S3Server
) -> None:
    check(cluster, driver, server)
