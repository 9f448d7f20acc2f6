"""Writes the events of the soak into a topic, so many a second: soak_producer.py BOOTSTRAP TOPIC SEED RATE SECONDS.

In the end an event for each partition ends whatever is open. Prints how many events there are.
"""

import itertools
import sys
import time

from confluent_kafka import Producer
from tests.endurance.soak_events import END_KEY, END_MS, PARTITIONS, Event, events

#: Events are written in blocks of a tenth of a second.
BLOCKS_PER_S = 10


def main(bootstrap: str, topic: str, seed: int, rate: int, seconds: float) -> int:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": "2"})
    made, written, start = events(seed), 0, time.monotonic()
    for block in range(round(seconds * BLOCKS_PER_S)):
        time.sleep(max(0.0, start + block / BLOCKS_PER_S - time.monotonic()))
        for event in itertools.islice(made, rate // BLOCKS_PER_S):
            producer.produce(topic, event.line(), partition=event.key % PARTITIONS)
            written += 1
        producer.poll(0)
    for partition in range(PARTITIONS):
        producer.produce(topic, Event(written + END_MS, END_KEY, 0).line(), partition=partition)
    left = producer.flush(60)
    producer.close()
    print(written)
    return left


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])))
