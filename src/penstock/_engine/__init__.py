"""The engine behind the API: private, may change with any release. Its layers are drawn in docs/architecture.md."""
