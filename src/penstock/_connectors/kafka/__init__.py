"""Kafka as a source and as a sink, on confluent-kafka."""
