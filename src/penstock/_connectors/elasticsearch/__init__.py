"""A sink for Elasticsearch and OpenSearch."""
