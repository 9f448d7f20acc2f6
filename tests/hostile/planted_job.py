"""A program with secrets in all places that take text: the test puts one in place of each name between two @@.

It runs beside a Spark session of its own that keeps an event log, fails once, and then counts until it is cancelled.
"""

# pyright: basic
from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from pyspark.sql import SparkSession

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
logging.basicConfig(level=logging.INFO)


class Connecting(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group().add_group("server", "amqp://joe:@@metric-variable@@@host")
        group.counter("calls with pwd=@@metric-name@@").inc()
        self.state = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: dict[str, Any], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self.state.update("@@state@@")
        if value["n"] == 40 and not (HERE / "failed").exists():
            (HERE / "failed").touch()
            try:
                connect(password="@@line@@")
            except OSError as error:
                raise ConnectionError("postgres://joe:@@exception-url@@@db refused (pwd=@@exception-form@@)") from error
        yield str(value["n"])


def connect(password: str) -> Never:
    raise OSError("the server knows no @@known@@, nor 'credential': '@@exception-dict@@'")


if __name__ == "__main__":
    conf: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (HERE / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    spark = SparkSession.builder.master("local[2,4]").config(map=conf).getOrCreate()
    (HERE / "conf.json").write_text(json.dumps(spark.sparkContext.getConf().getAll()))
    threading.Thread(target=threading.Event().wait, name="to ftp://joe:@@thread@@@host", daemon=True).start()
    configuration = Configuration()
    configuration.set_string("program.passphrase", "@@program@@").set_string("license.number", "@@own-word@@")
    configuration.set_string("program.options", "-Dtrust.password=@@program-options@@ -Dx=1")
    configuration.set_string(
        "program.urls", "[mysql://joe:@@program-list-url@@@db, {hosts: [{api-key: @@program-deep@@}]}]"
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    source = DataGeneratorSource(
        lambda n: {"n": n, "password": "@@record@@"}, 1_000_000, RateLimiterStrategy.per_second(50)
    )
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "from kafka://joe:@@source-name@@@host")
        .key_by(lambda record: record["n"] % 3)
        .process(Connecting())
        .name("to db, token=@@operator-name@@")
        .uid("connecting")
        .set_description("api-key: @@description@@")
        .sink_to(FileSink.for_row_format(str(HERE / "out"), Encoder.simple_string_encoder()).build())
        .name("to https://@@sink-name-token-0123456789@@@host")
    )
    env.execute("report by smtp://joe:@@job-name@@@host")
