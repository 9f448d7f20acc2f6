"""Task managers, where Spark has executors; and Flink's paths for what there is not here."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.unit.rest.fakes import JOB, OTHER, READ, Api, FakeControl, at

from penstock._engine.gateway.executor_view import ExecutorView
from penstock._engine.rest.guard import MAX_BODY
from penstock._engine.rest.handlers import refusals
from penstock._engine.rest.local_executor import local_executor
from penstock._engine.spark.executors import SparkExecutors, listed

MIB = 1 << 20
CLUSTER = (
    ExecutorView("spark-1", "one", 7001, 4, 3, 400 * MIB, 100 * MIB),
    ExecutorView("spark-2", "two", 7002, 2, 0, 200 * MIB, 50 * MIB),
)


@pytest.fixture
def api() -> Api:
    return Api(FakeControl())


def test_the_drivers_process_is_the_one_task_manager_where_spark_is_local(api: Api) -> None:
    (one,) = api.get("/v1/taskmanagers")["taskmanagers"]
    details = api.get(f"/v1/taskmanagers/{one['id']}")
    assert {**one, "metrics": details["metrics"], "allocatedSlots": []} == details
    assert (one["slotsNumber"], one["freeSlots"], one["path"]) == (2, 1, "box:0")
    assert one["jmxPort"] == -1  # as Flink has it where there is none
    assert one["blocked"] is False
    assert details["metrics"]["heapUsed"] == 2 << 30
    # Where subtasks say that they run is one of them.
    subtask = api.get(f"/jobs/{JOB}/vertices/{READ}")["subtasks"][0]
    assert subtask["taskmanager-id"] == one["id"]
    assert api.get(f"/taskmanagers/{one['id']}/logs") == {"logs": []}
    assert api.get(f"/taskmanagers/{one['id']}/thread-dump")["threadInfos"]
    assert api.get("/overview")["taskmanagers"] == 1


def test_each_executor_of_a_cluster_is_one(api: Api) -> None:
    api.executors = CLUSTER
    assert [one["id"] for one in api.get("/taskmanagers")["taskmanagers"]] == ["spark-1", "spark-2"]
    assert api.get("/overview")["taskmanagers"] == 2
    assert api.get("/taskmanagers/spark-2")["totalResource"]["taskHeapMemory"] == 200
    assert "anew for each task" in api.error("GET", "/taskmanagers/spark", 404)
    assert "Could not find TaskExecutor with id zzz" in api.error("GET", "/taskmanagers/zzz", 404)
    assert "Spark's own page" in api.error("GET", "/taskmanagers/spark-1/thread-dump", 404)


def test_cluster_without_executors_says_since_when(api: Api) -> None:
    assert api.get("/overview")["penstock"]["no_executors_since"] is None
    api.executors, api.no_executors_since = (), 1_700_000_000_000
    overview = api.get("/overview")
    assert overview["penstock"]["no_executors_since"] == 1_700_000_000_000
    assert (overview["taskmanagers"], overview["slots-total"], overview["slots-available"]) == (0, 0, 0)
    assert api.get("/taskmanagers") == {"taskmanagers": []}


def test_metrics_of_one_and_over_several(api: Api) -> None:
    api.executors = CLUSTER
    used = "Status.JVM.Memory.Heap.Used"
    assert api.get(f"/taskmanagers/spark-1/metrics?get={used}") == [{"id": used, "value": str(100 * MIB)}]
    assert {"id": used} in api.get("/taskmanagers/spark-1/metrics")
    over = api.get(f"/taskmanagers/metrics?get={used}&agg=min,max,sum")
    assert over == [{"id": used, "min": 50.0 * MIB, "max": 100.0 * MIB, "sum": 150.0 * MIB}]
    over = api.get(f"/taskmanagers/metrics?get={used}&agg=sum&taskmanagers=spark-2")
    assert over == [{"id": used, "sum": 50.0 * MIB}]


def test_this_process_knows_its_memory() -> None:
    here = local_executor(2, 1)
    assert 0 < here.used_memory < here.memory
    assert (here.slots, here.running_tasks) == (2, 1)


class Row:
    """An executor as Spark has it."""

    def __init__(self, name: str, place: str) -> None:
        self._values = {
            "id": name, "hostPort": place, "totalCores": 4, "activeTasks": 1, "maxMemory": 10, "memoryUsed": 5
        }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        return lambda: self._values[name]


class Rows(list[Row]):
    """A sequence of Scala's."""

    def apply(self, index: int) -> Row:
        return self[index]

    def size(self) -> int:
        return len(self)


class Context:
    """A SparkContext, as far as executors are asked for."""

    def __init__(self, *rows: Row) -> None:
        self._jsc = self
        self._rows = Rows(rows)

    def sc(self) -> Context:
        return self

    statusStore = sc

    def executorList(self, active: bool) -> Rows:
        return self._rows


def test_spark_lists_its_executors_without_the_driver() -> None:
    found = listed(Context(Row("driver", "d:1"), Row("7", "host:7001"), Row("8", "[::1]:7002")))
    assert found == (
        ExecutorView("spark-7", "host", 7001, 4, 1, 10, 5),
        ExecutorView("spark-8", "[::1]", 7002, 4, 1, 10, 5),
    )


def test_executors_are_looked_up_beside_and_stay_where_spark_has_ended() -> None:
    answers: list[Any] = [CLUSTER, RuntimeError("the JVM is gone")]

    def look() -> tuple[ExecutorView, ...]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    executors = SparkExecutors(look)
    executors.look()
    assert executors() == CLUSTER  # and looks again
    end = time.monotonic() + 10
    while answers and time.monotonic() < end:
        time.sleep(0.001)
    assert (executors(), answers) == (CLUSTER, [])


# ----------------------------------------------------------------------------------------------------- what is not here


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_not_here_says_why_and_what_to_do(api: Api, method: str) -> None:
    for route in refusals.ROUTES:
        if route.method != method:
            continue
        path = route.path.replace("{jobid}", JOB).replace("{vertexid}", READ).replace("{triggerid}", OTHER)
        path = path.replace("{applicationid}", OTHER).replace("{", "").replace("}", "")
        said = api.error(method, f"/v1{path}", 404)
        assert said == next(iter(route.errors.values()))


def test_jars_are_refused_before_they_are_read(api: Api) -> None:
    jar = {"content-type": "application/x-java-archive"}
    for path in ("/jars/upload", "/v1/jars/upload", "/jars"):
        assert "penstock run PROGRAM" in api.error("POST", path, 404, content=b"x" * 2 * MAX_BODY, headers=jar)


def test_data_sets_that_are_not_there_are_gone_at_once(api: Api) -> None:
    trigger = api.send("DELETE", f"/v1/datasets/{OTHER}", 202)["request-id"]
    done = {"status": {"id": "COMPLETED"}, "operation": {}}
    assert api.get(f"/v1/datasets/delete/{trigger}") == done
    assert not api.operations.unread


def test_heartbeats_of_clients_are_taken(api: Api) -> None:
    assert api.send("PATCH", f"/jobs/{JOB}/clientHeartbeat", 202, json={"expiredTimestamp": at(1).now_ms}) == {}
    api.error("PATCH", f"/jobs/{OTHER}/clientHeartbeat", 404)


def test_of_attempts_the_last_one_is_known(api: Api) -> None:
    below = f"/jobs/{JOB}/vertices/{READ}"
    current = api.get(f"{below}/subtasks/1")
    number = current["attempt"]
    assert api.get(f"{below}/subtasks/1/attempts/{number}") == current
    assert "Only the current attempt" in api.error("GET", f"{below}/subtasks/1/attempts/{number + 1}", 404)
    counted = api.get(f"{below}/subtasks/1/attempts/{number}/accumulators")
    assert counted == {"subtask": 1, "attempt": number, "id": f"{READ}_1_{number}", "user-accumulators": []}
    over = api.get(f"{below}/subtasks/accumulators")
    assert [row["subtask"] for row in over["subtasks"]] == [0, 1]
    assert api.get(f"{below}/jm-operator-metrics") == []
