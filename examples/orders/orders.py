"""Writes orders into Kafka, and prints what the shops have sold.

Usage: orders.py [COUNT] [KAFKA]
"""

import json
import random
import sys
from collections import Counter

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

SHOPS = ("Aarhus", "Bergen", "Cork", "Delft", "Evora", "Faro", "Ghent")


def write(count: int, kafka: str, seed: int | None = None) -> Counter[str]:
    """Write orders, and return the cents of each shop."""
    admin = AdminClient({"bootstrap.servers": kafka})
    try:
        admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result()
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
    producer, sold = Producer({"bootstrap.servers": kafka}), Counter[str]()
    dice = random.Random(seed)  # noqa: S311 - orders are no secrets
    for _ in range(count):
        shop, cents = dice.choice(SHOPS), dice.randrange(100, 10_000)
        producer.produce("orders", json.dumps({"shop": shop, "cents": cents}))
        producer.poll(0)
        sold[shop] += cents
    producer.flush()
    return sold


if __name__ == "__main__":
    number, address = [*sys.argv[1:], *("10000", "localhost:9092")[len(sys.argv) - 1 :]]
    for name, sum_of_cents in sorted(write(int(number), address).items()):
        print(f"{name:8}{sum_of_cents / 100:12,.2f}")
