"""A program as a user might write it: one job that has no end, and then one with an error in it.

Run by a test with a directory; it ends when its standard input does.
"""

import sys
import time

from penstock.common import Configuration, Duration, Encoder, Row, Types, WatermarkStrategy
from penstock.common.time import Time
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import JobExecutionError

MARKETS = ("Amsterdam", "Frankfurt", "Lisbon", "Milan", "Paris")
STARTED_MS = int(time.time() * 1000)


class TradeTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at_ms


class Mean(ProcessWindowFunction):
    def process(self, key, context, elements):
        prices = [trade.price for trade in elements]
        yield f"{context.window().start},{key},{sum(prices) / len(prices):.2f}"


def trade(number):
    return Row(at_ms=STARTED_MS + number, market=MARKETS[number % 5], price=100 + number % 7)


def in_euros(trade):
    time.sleep(0.0008)  # a service that is asked for the rate
    return trade


def share_of(trade):
    return f"{trade.market},{100 / (trade.price - 106):.1f}"


def trades(env, per_second):
    source = DataGeneratorSource(trade, None, RateLimiterStrategy.per_second(per_second), Types.PICKLED_BYTE_ARRAY())
    nearly_in_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50))
    return env.from_source(source, nearly_in_order.with_timestamp_assigner(TradeTime()), "trades")


def means(env, out):
    """Mean prices of ten seconds of each market."""
    windows = (
        trades(env, 1500)
        .rebalance()
        .map(in_euros).name("currency conversion")
        .key_by(lambda trade: trade.market)
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .process(Mean(), Types.STRING()).name("mean of 10 s")
    )  # fmt: skip
    windows.sink_to(FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()).name("means")


def shares(env, out):
    """Has an error: a price of 106 is divided by zero."""
    lines = trades(env, 50).map(share_of, Types.STRING()).name("share of the total")
    lines.sink_to(FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()).name("shares")


def environment(directory):
    configuration = Configuration()
    for key, value in {
        "penstock.rest.enabled": "true",
        "rest.bind-port": "0",
        "penstock.rest.registry-dir": f"{directory}/registry",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{directory}/savepoints",
        "restart-strategy.type": "none",
        "parallelism.default": "2",
    }.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


if __name__ == "__main__":
    (place,) = sys.argv[1:]
    env = environment(place)
    means(env, f"{place}/means")
    env.execute("mean prices")
    env = environment(place)
    shares(env, f"{place}/shares")
    try:
        env.execute("market shares")
    except JobExecutionError as error:
        print(error)
    sys.stdin.read()
