"""The cases of the campaign: what each shows, and the command that runs it."""

from __future__ import annotations

import sys
from dataclasses import replace

from tests.campaign.case import Case
from tests.campaign.environments import in_environments
from tests.kit.exchange import PIPELINED, VARIABLE

#: Random kills of one job per seed, and how many seeds.
KILL_SEEDS = 20
#: The same with the pipelined exchange: sixty lives of five kills each.
PIPELINED_KILL_SEEDS = 12
#: Checkpoints, one each second for half an hour; its job makes twice as many as it is told.
PIPELINED_EPOCHS = 1_800
#: Kills of the job that follows a table of PostgreSQL.
POSTGRES_KILLS = 20
#: Random jobs with random lives, and the minutes of a seed.
CHAOS_SEEDS = 10
CHAOS_MINUTES = 6
#: Lives with tables, eight kills each.
LAKE_SEEDS = 2
#: Lives with operators behind a commit: two kills at each of four telling points and at six random ones.
TOLD_SEEDS = 2
#: Seeds, and kills at each, of a batch job with recovery.
STAGED_SEEDS = 10
STAGED_KILLS = 5
#: Batch jobs on Spark whose workers are killed.
BATCH_KILLS = 30
#: The points of a driver's work are shared out to so many cases.
PARTS = 4
KILLS = "test_driver_kills.py::test_kill_at_any_point_leaves_the_truth_to_the_next_driver"
RECOVERIES = "test_driver_kills.py::test_kill_of_the_driver_that_recovers_leaves_the_truth_to_the_third"
SAVEPOINTS = "test_driver_kills.py::test_kill_at_any_point_of_a_stop_with_savepoint_loses_neither_the_job_nor_a_record"
DRAINS = "test_driver_kills.py::test_kill_at_any_point_of_a_drain_loses_neither_the_job_nor_a_record"
RESTORES = "test_driver_kills.py::test_kill_of_a_driver_that_restores_a_savepoint_leaves_the_truth_to_the_next"
SIGNALS = "test_signals.py::test_signal_leaves_no_process_and_the_next_start_goes_on_to_the_truth"
GROUP_STOPS = "test_signals.py::test_sigterm_to_the_process_group_ends_with_a_savepoint_that_starts"
#: Random kills of a job with three sinks, alone and on Spark.
TOGETHER_KILLS = 20
TOGETHER_KILLS_ON_SPARK = 5
#: Random kills of a job from Kafka to Kafka, and the seconds for which its broker is away.
KAFKA_KILLS = 20
KAFKA_OUTAGE_S = 30
#: Lives of jobs whose topics, index or files change.
CHANGED_LIVES = 30
#: How often a stop by a signal to the process group is tried.
SIGTERMS = 20
#: Random jobs that are stopped and restored; lives with clocks and times to live; random orders of events.
RESTORED_JOBS = 500
CLOCK_LIVES = 200
TTL_LIVES = 2_000
ORDERS = 1_500
FUZZED = 10_000
#: Half of them open a dozen files each.
FUZZED_LIMIT_S = 3 * 3600
RESTORED_JOBS_ON_SPARK = 100
#: Lives of a job on two isolated hosts, each half a minute to a minute.
CLUSTER_LIVES = 20
CLUSTER_LIMIT_S = 2 * 3600
#: For how long the network of a host is cut.
CUT_S = 60
#: Seconds of events of the soak; its start, its end and the truth take some minutes more.
SOAK_S = 7_200
SAMPLED_LIMIT_S = 2 * 3600
SOAK_LIMIT_S = 3 * 3600


def pipelined(case: Case) -> Case:
    """Return a case whose jobs have the pipelined exchange."""
    return replace(
        case,
        name=f"{case.name}-pipelined",
        shows=f"with the pipelined exchange: {case.shows}",
        environment={**case.environment, VARIABLE: PIPELINED},
    )


def cases(seed: int) -> list[Case]:
    """Return the cases in their order."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    kills = [
        Case(
            f"random-kills-{seed + number}",
            "SIGKILL of the process group at five random moments: files hold the truth",
            [*pytest, "tests/fault/test_kill.py"],
            {"PENSTOCK_TEST_SEED": str(seed + number), "PENSTOCK_TEST_KILLS": "5"},
        )
        for number in range(KILL_SEEDS)
    ]
    points = [
        Case(
            f"{name}-{part}",
            shows,
            [*pytest, f"tests/fault/{tests}"],
            {"PENSTOCK_FAULT_POINTS": f"{part}/{PARTS}"},
        )
        for name, tests, shows in (
            ("kill", KILLS, "SIGKILL of the driver before and after each of its steps: files hold the truth"),
            ("kill-recovery", RECOVERIES, "the same for a driver that recovers from a kill"),
            ("kill-savepoint", SAVEPOINTS, "the same for a driver that stops with a savepoint"),
            ("kill-drain", DRAINS, "the same for a driver that is drained"),
            ("kill-restore", RESTORES, "the same for a driver that goes on from a savepoint"),
            (
                "signals",
                SIGNALS,
                "on Spark: four signals to the process or its group, at three moments: no process is left",
            ),
            ("stop", "test_fencing.py", "SIGSTOP at each step while another driver does the job: fenced, says so"),
        )
        for part in range(1, PARTS + 1)
    ]
    sigterms = Case(
        "sigterms",
        f"on Spark: SIGTERM to the process group {SIGTERMS} times: a savepoint that starts, and the truth, each time",
        [*pytest, f"tests/fault/{GROUP_STOPS}"],
        {"PENSTOCK_TEST_SIGTERMS": str(SIGTERMS), "PENSTOCK_TEST_SEED": str(seed)},
    )
    kafka = [
        Case(
            "kafka",
            f"SIGKILL of a job from Kafka to Kafka at {KAFKA_KILLS} random moments, and at each step of its sink: "
            "each record once",
            [*pytest, "tests/kafka/test_kills.py"],
            {"PENSTOCK_TEST_KILLS": str(KAFKA_KILLS), "PENSTOCK_TEST_SEED": str(seed)},
        ),
        Case(
            "changing-targets",
            f"{CHANGED_LIVES} random lives each of jobs whose topics, index, tables, folders or files change: right, "
            "or an error that names the change",
            [
                *pytest,
                *("tests/kafka/test_lives.py", "tests/search/test_lives.py", "tests/connectors/test_changing_files.py"),
                *("tests/postgres/test_table_lives.py", "tests/connectors/test_lake_lives.py"),
                *("tests/connectors/test_lake_source_lives.py", "tests/connectors/test_folder_lives.py"),
            ],
            {"PENSTOCK_TEST_LIVES": str(CHANGED_LIVES), "PENSTOCK_TEST_SEED": str(seed)},
        ),
        Case(
            "kafka-faults",
            f"a broker that stands still and one that dies, for {KAFKA_OUTAGE_S} s; topics, partitions and records "
            "that come and go",
            [*pytest, "-m", "endurance or not endurance", "tests/kafka/test_faults.py"],
            {"PENSTOCK_TEST_OUTAGE_S": str(KAFKA_OUTAGE_S)},
        ),
    ]
    together = [
        Case(
            f"three-sinks{where}",
            f"SIGKILL {kills} times of a job{what} that writes into Kafka, PostgreSQL and files; the broker and the "
            "database are killed, too: all three hold the same truth",
            [*pytest, "tests/together"],
            {"PENSTOCK_TEST_SEED": str(seed), "PENSTOCK_TEST_KILLS": str(kills), "CI": "1", **more},
        )
        for where, what, kills, more in (
            ("", "", TOGETHER_KILLS, {}),
            ("-spark", " on Spark", TOGETHER_KILLS_ON_SPARK, {"PENSTOCK_TEST_ON_SPARK": "1"}),
        )
    ]
    spark = Case(
        "spark-faults",
        "on Spark: a worker, an executor, the driver's process alone are killed",
        [*pytest, "tests/fault/test_spark_faults.py"],
        {"PENSTOCK_FAULT_POINTS": "1/1"},
    )
    cluster = Case(
        "cluster-lives",
        f"on two isolated hosts, with S3: {CLUSTER_LIVES} lives with kills of executors, workers, hosts and drivers",
        [*pytest, "tests/cluster/test_lives.py"],
        {"PENSTOCK_TEST_LIVES": str(CLUSTER_LIVES), "PENSTOCK_TEST_SEED": str(seed)},
        CLUSTER_LIMIT_S,
    )
    churn = Case(
        "cluster-churn",
        "the same hosts: decommissioning, one failure for a task, speculation, slow executors, a master that starts "
        "again with and without its notes, a driver that is cut off for a minute: exact, and told",
        [*pytest, "tests/cluster/test_churn.py"],
        {"PENSTOCK_TEST_CHURN": "1"},
        CLUSTER_LIMIT_S,
    )
    cut = Case(
        "cluster-cut",
        f"hosts in network namespaces of their own; packets of the driver's host, and then of a worker's, are lost for "
        f"{CUT_S} s each: exact, goes on by itself, and tells of it",
        [*pytest, "tests/cluster/test_cut.py"],
        {"PENSTOCK_TEST_CUT": str(CUT_S)},
    )
    yarn = Case(
        "yarn",
        "on YARN, with isolated hosts and S3: executors, hosts, a NodeManager, the ApplicationMaster, the application "
        "and the driver are killed; a rescale: exact, and told",
        [*pytest, "tests/cluster/test_yarn.py"],
        {"PENSTOCK_TEST_YARN": "1"},
        CLUSTER_LIMIT_S,
    )
    kubernetes = Case(
        "kubernetes",
        "on a real Kubernetes API without nodes, which is built once: the manifests of the documents, the pods that "
        "Spark asks for under their rights, and what is told where none comes",
        [*pytest, "tests/cluster/test_kubernetes.py"],
        {"PENSTOCK_TEST_KUBERNETES": "1"},
        CLUSTER_LIMIT_S,
    )
    submitted = Case(
        "cluster-demo",
        "the demo on these hosts, by spark-submit; and killed on the way and resumed: the lines of an undisturbed run",
        [*pytest, "tests/cluster/test_demo.py"],
        {"PENSTOCK_FLIGHTS_CRASH": "1"},
    )
    staged = [
        Case(
            f"staged-kills-{seed + number}",
            f"on Spark: a batch job with recovery is killed {STAGED_KILLS} times at random moments: the truth, "
            "and little again",
            [*pytest, "tests/fault/test_staged_kills_on_spark.py"],
            {"PENSTOCK_STAGED_KILLS": str(STAGED_KILLS), "PENSTOCK_TEST_SEED": str(seed + number)},
        )
        for number in range(STAGED_SEEDS)
    ]
    lakes = [
        Case(
            f"lake-kills-{seed + number}",
            "SIGKILL of the driver at eight points of a life with a Delta and an Iceberg table: each record once",
            [*pytest, "tests/fault/test_lake_kills.py"],
            {"PENSTOCK_TEST_SEED": str(seed + number), "PENSTOCK_TEST_KILLS": "8"},
        )
        for number in range(LAKE_SEEDS)
    ]
    told = [
        Case(
            f"told-kills-{seed + number}",
            "SIGKILL of the driver between a commit and the operators behind it: each committable is passed on once",
            [*pytest, "-m", "endurance", "tests/fault/test_told_kills.py"],
            {"PENSTOCK_TEST_SEED": str(seed + number)},
        )
        for number in range(TOLD_SEEDS)
    ]
    away = Case(
        "staged-s3-away",
        "a batch job with its results and events in S3, which is away for half a minute",
        [*pytest, "tests/s3/test_staged.py"],
        {"PENSTOCK_S3_AWAY_S": "30"},
    )
    batch_tasks = Case(
        "batch-tasks",
        "on Spark: workers of batch jobs are killed at random records of each step, with sorts in memory and on disk",
        [*pytest, "tests/fault/test_batch_tasks.py"],
        {"PENSTOCK_BATCH_KILLS": str(BATCH_KILLS), "PENSTOCK_TEST_SEED": str(seed)},
    )
    matrix = Case(
        "matrix-spark",
        "on Spark: every way to end with all that may be pending; 100 vertices side by side, 30 levels in a row",
        [*pytest, "tests/spark/test_matrix.py"],
        {"PENSTOCK_FAULT_POINTS": "1/1"},
    )
    conformance = Case(
        "conformance",
        "each program of the conformance suite in a process, and on a session, of its own",
        [*pytest, "tests/compat/test_conformance.py"],
        {"PENSTOCK_CONFORMANCE": "all"},
    )
    sums = Case(
        "sums-killed",
        "The example of Kafka and Elasticsearch on Spark, killed three times at random: the index has the truth",
        [*pytest, "tests/search/test_orders.py"],
        {"PENSTOCK_TEST_SEED": str(seed), "PENSTOCK_TEST_KILLS": "3", "PENSTOCK_TEST_ON_SPARK": "1"},
    )
    flights = Case(
        "flights-crash",
        "the demo, killed on the way and resumed: the flights of the whole year as DuckDB has them",
        [*pytest, "tests/examples/test_flights.py"],
        {"PENSTOCK_FLIGHTS_CRASH": "1"},
    )
    postgres = Case(
        "postgres",
        f"SIGKILL {POSTGRES_KILLS} times of a job that follows a table, and a crash of the server: its copy is right",
        [*pytest, "tests/postgres/test_kill.py"],
        {"PENSTOCK_TEST_SEED": str(seed), "PENSTOCK_TEST_KILLS": str(POSTGRES_KILLS), "CI": "1"},
    )
    soak = Case(
        "soak",
        f"a job from Kafka to Kafka and files for {SOAK_S} s, killed every four minutes in the first half: each record "
        "once, memory, epochs and disk flat",
        [*pytest, "-m", "endurance", "tests/endurance/test_soak.py"],
        {"PENSTOCK_SOAK_S": str(SOAK_S), "PENSTOCK_TEST_SEED": str(seed), "CI": "1"},
        SOAK_LIMIT_S,
    )
    values = Case(
        "values",
        "what becomes of each value on each path that needs no server",
        [*pytest, "tests/values"],
        {"PENSTOCK_ALL_CELLS": "1"},
    )
    streams = Case(
        "standard-error",
        "programs with a full and a closed standard error: they are interrupted, continue and end as ever",
        [*pytest, "tests/hostile/test_standard_error.py"],
        {"PENSTOCK_ALL_CELLS": "1"},
    )
    chaos = [
        Case(
            f"chaos-{seed + number}",
            f"random jobs with random lives for {CHAOS_MINUTES} minutes: what a model says, and nothing is left",
            [sys.executable, "-m", "tests.chaos.run", "--seed", str(seed + number), "--minutes", str(CHAOS_MINUTES)],
            {},
        )
        for number in range(CHAOS_SEEDS)
    ]
    hostile = Case(
        "hostile-clients",
        "500 malformed requests/s for a minute, slow clients, bodies of 100 MB: a job on Spark does not notice",
        [*pytest, "-m", "endurance", "tests/hostile"],
        {"PENSTOCK_TEST_SEED": str(seed)},
    )
    properties = Case(
        "properties",
        "property tests with twenty times the examples",
        [*pytest, "tests/property"],
        {"HYPOTHESIS_PROFILE": "campaign"},
    )
    restores = Case(
        "restores",
        "random jobs, stopped at random moments and restored at other parallelisms: the output of a run without a stop",
        [*pytest, "tests/property/test_restore.py"],
        {"HYPOTHESIS_PROFILE": "campaign", "PENSTOCK_RESTORE_EXAMPLES": str(RESTORED_JOBS)},
    )
    restores_on_spark = Case(
        "restores-spark",
        "the same on Spark",
        [*pytest, "tests/spark/test_random_stops.py"],
        {"HYPOTHESIS_PROFILE": "campaign", "PENSTOCK_SPARK_RESTORE_EXAMPLES": str(RESTORED_JOBS_ON_SPARK)},
    )
    clock_lives = Case(
        "clock-lives",
        "lives on a clock that is set by a second to a day at random: nothing is lost, and no epoch is late",
        [*pytest, "tests/property/test_clock_lives.py"],
        {"PENSTOCK_CLOCK_LIVES": str(CLOCK_LIVES), "PENSTOCK_TEST_SEED": str(seed)},
    )
    expiring = Case(
        "expiring-lives",
        "state of all kinds that expires, with clocks that are set, restores, rescales and other times to live",
        [*pytest, "tests/property/test_time_to_live.py"],
        {"PENSTOCK_TTL_LIVES": str(TTL_LIVES), "PENSTOCK_TEST_SEED": str(seed)},
    )
    orders = Case(
        "orders",
        "a driver whose instructions fail, whose requests come at any step, and that is killed: the output is right",
        [*pytest, "tests/property/test_coordinator.py"],
        {"HYPOTHESIS_PROFILE": "campaign", "PENSTOCK_COORDINATOR_EXAMPLES": str(ORDERS)},
    )
    fuzzed = Case(
        "fuzzed",
        "odd requests by each role, metadata, state files, savepoints, registry, settings: no 5xx, nothing outside",
        [
            *pytest,
            f"--hypothesis-seed={seed}",
            *(f"tests/hostile/test_fuzzed_{each}.py" for each in ("requests", "files")),
        ],
        {"HYPOTHESIS_PROFILE": "campaign", "PENSTOCK_FUZZ_EXAMPLES": str(FUZZED)},
        FUZZED_LIMIT_S,
    )
    tests = [properties, restores, restores_on_spark, clock_lives, expiring, orders]
    sampled = Case(
        "sampled",
        "all cases of the laws of which a run draws some",
        [*pytest, "-m", "sampled", "tests"],
        {"PENSTOCK_ALL_CELLS": "1"},
        SAMPLED_LIMIT_S,
    )
    suites = Case(
        "suites",
        "the tests of jobs on Spark and of faults, without those of what it refuses",
        [*pytest, "tests/spark", "tests/fault"],
        {},
        SAMPLED_LIMIT_S,
    )
    flat = Case(
        "flat",
        "a checkpoint each second for half an hour: memory, threads, descriptors and files of all processes are flat",
        [*pytest, "-m", "endurance", "tests/endurance/test_endurance.py", "-k", "leave_nothing_behind"],
        {
            "PENSTOCK_TEST_EPOCHS": str(PIPELINED_EPOCHS // 2),
            "PENSTOCK_EXECUTION__CHECKPOINTING__INTERVAL": "1 s",
        },
        SAMPLED_LIMIT_S,
    )
    strangers = Case(
        "strangers",
        "whatever a stranger sends to Spark's servers of a pipelined exchange: nothing decoded, each record once",
        [*pytest, "tests/hostile/test_pipelined_exchange.py"],
        {"PENSTOCK_ALL_CELLS": "1"},
    )
    in_both_ways = [*kills[:PIPELINED_KILL_SEEDS], cluster, orders, suites, flat]
    whole = [sampled, conformance, sums, flights, streams, values, postgres]  # of which make test runs a part
    return [
        *points,
        *kafka,
        *together,
        sigterms,
        spark,
        cluster,
        churn,
        cut,
        yarn,
        kubernetes,
        submitted,
        batch_tasks,
        matrix,
        *whole,
        *kills,
        *map(pipelined, in_both_ways),
        strangers,
        *staged,
        *lakes,
        *told,
        away,
        *chaos,
        hostile,
        soak,
        fuzzed,
        *tests,
        *in_environments(pytest, seed),
    ]
