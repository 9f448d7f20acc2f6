"""DataFrames of Spark as streams, and streams as DataFrames."""

from __future__ import annotations

import datetime
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.caches import place as kept_places
from penstock._engine.spark.session import users_session
from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.errors import BatchColumnsError, JobCancelledError, JobExecutionError, UnsupportedOperationError
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from penstock._engine.spark.session import SparkHandle


@pytest.fixture
def session(spark: SparkHandle) -> Iterator[SparkSession]:
    """The session of a program; what it keeps goes at the end."""
    del spark
    yield users_session()
    kept_places.remove_places()


def environment(place: Path, mode: str = "STREAMING") -> StreamExecutionEnvironment:
    # Names that a glob would read as patterns.
    configuration = Configuration.from_dict({"execution.checkpointing.dir": str(place / "check [points]{}")})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode[mode])


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_frame_goes_through_a_job_and_comes_out_as_a_frame(session: SparkSession, tmp_path: Path, mode: str) -> None:
    frame = session.range(0, 1000, 1, 3).selectExpr("id", "id % 7 AS kind", "CAST(id AS STRING) AS word")
    env = environment(tmp_path, mode)
    stream = env.from_dataframe(frame)
    assert stream.get_type() == Types.ROW_NAMED(["id", "kind", "word"], [Types.LONG(), Types.LONG(), Types.STRING()])
    result = stream.map_batches(lambda batch: batch.select(["word", "id"])).to_dataframe()
    assert result.schema.simpleString() == "struct<word:string,id:bigint>"
    assert sorted(result.collect()) == sorted(frame.select("word", "id").collect())
    assert "Scan parquet" in result._jdf.queryExecution().toString()
    assert not list(tmp_path.glob("*/*/frames/*"))


def test_values_of_all_types_arrive_as_they_are(session: SparkSession, tmp_path: Path) -> None:
    frame = session.sql(
        "SELECT true AS flag, 1Y AS b, 2S AS s, 3 AS i, 4L AS l, 1.5F AS f, 2.5D AS d, 1.25BD AS dec, 'x' AS word, "
        "X'00ff' AS bytes, DATE'2024-02-29' AS day, TIMESTAMP_NTZ'2024-02-29 01:02:03.000004' AS t, "
        "TIMESTAMP'2024-02-29 01:02:03Z' AS moment, array(1, 2) AS list, map('a', 1) AS map, struct(1 AS x) AS inner, "
        "CAST(null AS INT) AS nothing, 1 AS `a.b`, 2 AS ``, CAST('1e36' AS DECIMAL(38, 0)) AS long, 3 AS FLAG"
    )
    stream = environment(tmp_path).from_dataframe(frame)
    # Spark itself does not tell FLAG from `flag`.
    back = stream.map_batches(lambda batch: batch.drop_columns(["FLAG"])).to_dataframe()
    assert [tuple(row) for row in back.collect()] == [tuple(row)[:-1] for row in frame.collect()]
    with stream.execute_and_collect() as records:
        (row,) = records
    others = {"a.b": 1, "": 2, "long": Decimal(10**36), "FLAG": 3}
    assert {name: row[name] for name in others} == others
    row = Row(**{name: value for name, value in row.as_dict().items() if name not in others})
    assert row["moment"].astimezone(datetime.UTC) == datetime.datetime(2024, 2, 29, 1, 2, 3, tzinfo=datetime.UTC)
    row["moment"] = None
    assert row == Row(
        flag=True,
        b=1,
        s=2,
        i=3,
        l=4,
        f=1.5,
        d=2.5,
        dec=Decimal("1.25"),
        word="x",
        bytes=b"\x00\xff",
        day=datetime.date(2024, 2, 29),
        t=datetime.datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001 - it has none
        moment=None,
        list=[1, 2],
        map={"a": 1},
        inner={"x": 1},
        nothing=None,
    )


@pytest.mark.usefixtures("session")
def test_types_of_a_frame_are_declared_or_follow_from_all_records(tmp_path: Path) -> None:
    env = environment(tmp_path)
    records = [[{"a": 1, "nothing": None}, {"a": 2}], [{"a": 2.5, "b": "x", "nothing": None}]]
    inferred = env.from_source(ListSource(*records), WatermarkStrategy.no_watermarks(), "records").to_dataframe()
    types = dict(inferred.dtypes)
    assert types == {"a": "double", "b": "string", "nothing": "string"}
    assert sorted(inferred.select("a", "b").collect()) == [(1.0, None), (2.0, None), (2.5, "x")]

    pair = Types.TUPLE([Types.INT(), Types.STRING()])
    declared = env.from_collection([1, 2]).map(lambda n: (n, str(n)), pair).to_dataframe()
    assert declared.schema.simpleString() == "struct<f0:int,f1:string>"
    assert sorted(declared.collect()) == [(1, "1"), (2, "2")]

    empty = env.from_collection([1]).filter(lambda n: n > 1).map(lambda n: (n, ""), pair).to_dataframe()
    assert empty.schema == declared.schema
    assert empty.count() == 0

    kept = list(tmp_path.glob("*/.caches/*/*/*"))
    with pytest.raises((JobExecutionError, BatchColumnsError), match="declare the type"):
        env.from_collection([{"a": 1}, {"a": "x"}]).to_dataframe()
    assert list(tmp_path.glob("*/.caches/*/*/*")) == kept


def test_null_structs_nested_maps_and_parts_without_a_type_go_in_and_come_out(
    session: SparkSession, tmp_path: Path
) -> None:
    """A left join has null structs whose fields are declared to have no nulls; array() has items of no type."""
    frame = session.sql(
        "SELECT id, s, array(s, null) AS list, map('a', s, 'b', null) AS by_name, named_struct('inner', s) AS outer, "
        "array() AS none, map() AS no_names, map('k', map('b', 1)) AS nested, array(map('a', 1)) AS maps "
        "FROM range(2) LEFT JOIN (SELECT 1L AS id, named_struct('a', 7, 'b', array(1, null)) AS s) USING (id)"
    )
    stream = environment(tmp_path).from_dataframe(frame)
    assert stream.get_type().get_field_types()[7] == Types.MAP(Types.STRING(), Types.MAP(Types.STRING(), Types.INT()))
    with stream.execute_and_collect() as found:
        rows = {row["id"]: row.as_dict() for row in found}
    rest = {"none": [], "no_names": {}, "nested": {"k": {"b": 1}}, "maps": [{"a": 1}]}
    for number, struct in ((0, None), (1, {"a": 7, "b": [1, None]})):
        parts = {"s": struct, "list": [struct, None], "by_name": {"a": struct, "b": None}, "outer": {"inner": struct}}
        assert rows[number] == {"id": number} | parts | rest
    back = stream.to_dataframe()
    assert sorted(map(str, back.collect())) == sorted(map(str, frame.collect()))
    assert dict(back.dtypes)["nested"] == dict(frame.dtypes)["nested"]
    records = stream.filter(lambda row: row["id"] == 1).to_dataframe()
    assert dict(records.dtypes)["nested"] == "map<string,map<string,int>>"


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("parallelism", [1, 2])
def test_parallelism_does_not_decide_what_a_frame_can_hold(tmp_path: Path, parallelism: int) -> None:
    env = environment(tmp_path, "BATCH").set_parallelism(parallelism)
    east = datetime.timezone(datetime.timedelta(hours=5))
    noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
    records = [{"at": noon}, {}, {"at": noon.astimezone(east)}, {"s": {}}, {"s": {"x": 1}}]
    frame = env.from_collection(records).rebalance().map(lambda record: record).to_dataframe()
    assert dict(frame.dtypes) == {"at": "timestamp", "s": "struct<x:bigint>"}
    moments = frame.selectExpr("unix_seconds(at) AS at", "s.x AS x").collect()
    assert sorted(map(str, moments)) == sorted(
        [
            f"Row(at={at}, x={x})"
            for at, x in ((1577880000, None), (None, None), (1577880000, None), (None, None), (None, 1))
        ]
    )
    day = datetime.date(2020, 1, 1)
    for two, told in (
        ([{"d": day}, {"d": noon.replace(tzinfo=None)}], "column 'd' is (timestamp|date32)"),
        ([{"d": "x"}, {"d": b"x"}], "column 'd' is (string|binary)"),
        ([{}, {}], "no record of the stream has a field"),
    ):
        with pytest.raises((JobExecutionError, BatchColumnsError), match=told):
            env.from_collection(two).rebalance().map(lambda record: record).to_dataframe()


@pytest.mark.usefixtures("session")
def test_other_sinks_wait_for_execute(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    env = environment(tmp_path, "BATCH")
    numbers = env.from_collection([1, 2, 3])
    numbers.print("sink")
    assert numbers.to_dataframe().count() == 3
    assert "sink" not in capfd.readouterr().out
    env.execute()
    assert capfd.readouterr().out.count("sink") == 3


def test_what_cannot_be_is_refused_and_the_way_out_is_named(session: SparkSession, tmp_path: Path) -> None:
    env = environment(tmp_path)
    remote = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    for frame, told in (
        (remote, "Spark Connect.*write it as Parquet there"),
        (session.readStream.format("rate").load(), "no end; read its source"),
        (session.sql("SELECT 1 AS a, 2 AS a"), "two columns have the name 'a'"),
        (session.sql("SELECT array(named_struct('a', 1, 'a', 2)) AS x"), "two columns have the name 'a'"),
        (session.range(1).select(), "it has no columns; select one"),
        (session.sql("SELECT INTERVAL 1 MONTH AS a"), "Arrow does not have; cast it"),
    ):
        with pytest.raises(UnsupportedOperationError, match=told):
            env.from_dataframe(frame)
    with pytest.raises(TypeError, match=r"takes a DataFrame of Spark, not builtins\.list"):
        env.from_dataframe([1])  # type: ignore[arg-type]

    for records in ([{"a": 1, "A": 2}], [datetime.time(1)]):
        with pytest.raises(UnsupportedOperationError, match="Spark cannot have such columns"):
            env.from_collection(records).to_dataframe()
    assert not list(tmp_path.glob("*/.caches/*/*/*"))

    class Endless(ListSource):
        def get_boundedness(self) -> Any:
            from penstock.datastream.connectors.base import Boundedness

            return Boundedness.CONTINUOUS_UNBOUNDED

    stream = env.from_source(Endless([1]), WatermarkStrategy.no_watermarks(), "endless")
    with pytest.raises(UnsupportedOperationError, match=r"'Source: endless' at .* never comes to an end"):
        stream.to_dataframe()


def test_job_that_is_cancelled_while_spark_writes_waits_for_the_tasks(session: SparkSession, tmp_path: Path) -> None:
    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        (tmp_path / f"task {os.getpid()}").touch()
        while not (tmp_path / "go on").exists():
            time.sleep(0.01)
        (tmp_path / "was told to go on").touch()
        yield from batches

    env = environment(tmp_path)
    env.from_dataframe(session.range(0, 4, 1, 2).mapInArrow(slow, "id long")).print()
    client = env.execute_async()
    while not (tasks := list(tmp_path.glob("task *"))):
        time.sleep(0.01)
    client.cancel()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    (tmp_path / "go on").touch()
    for task in tasks:
        process = int(task.name.removeprefix("task "))
        while Path(f"/proc/{process}").exists() and not (tmp_path / "was told to go on").exists():
            time.sleep(0.01)
    assert not (tmp_path / "was told to go on").exists()
    assert not list(tmp_path.glob("*/*/frames/*"))
    assert session.range(3).count() == 3


@pytest.mark.usefixtures("session")
def test_program_of_the_document_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "dataframes.md").read_text(encoding="utf-8")
    program = text.split("```python\n")[1].split("```")[0]
    exec(compile(program, "dataframes.md", "exec"), {})
    assert text.split("```text\n")[1].split("```")[0].strip() in capsys.readouterr().out
