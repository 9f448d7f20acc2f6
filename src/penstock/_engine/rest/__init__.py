"""Flink's REST API over the jobs of this process: one handler for each of Flink's paths, plain data below.

Nothing here knows the engine: handlers read the frozen views of `gateway` and call `JobControl`.
"""
