"""Starts Kafka and Elasticsearch for the examples, and ends both with Ctrl-C.

Usage: python -m tests.services.servers [KAFKA_PORT SEARCH_PORT]

The servers are those of the tests. Ports are the usual ones, 9092 and 9200; data goes with the servers.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from pathlib import Path

from tests.services import kafka, search
from tests.services.cache import ServiceError


def main(kafka_port: int = 9092, search_port: int = 9200) -> int:
    """Run both until a signal comes."""
    reason = kafka.why_missing() or search.why_missing()
    if reason is not None:
        sys.stderr.write(f"{reason}.\n")
        return 1
    over = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: over.set())
    with tempfile.TemporaryDirectory(prefix="penstock-servers-") as place:
        broker = kafka.KafkaServer(Path(place, "kafka"))
        broker.port = kafka_port
        cluster = search.SearchServer(search.ELASTICSEARCH, Path(place, "search"), search_port)
        try:
            broker.start()
            cluster.start()
            sys.stdout.write(f"Kafka: localhost:{kafka_port}\nElasticsearch: {cluster.url}\nCtrl-C ends both.\n")
            sys.stdout.flush()
            over.wait()
        except ServiceError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        finally:
            broker.kill()
            cluster.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
