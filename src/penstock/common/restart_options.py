"""The configuration keys of restarts; `option_table` has them with all others."""

from __future__ import annotations

from typing import Final

from penstock.common.config_options import option, optional, options_in
from penstock.common.config_values import COUNT, DURATION, FLOAT, POSITIVE, choice
from penstock.common.time import Duration

RESTART_STRATEGY = optional(
    "restart-strategy.type",
    choice(
        "none",
        "fixed-delay",
        "failure-rate",
        "exponential-delay",
        same={
            "off": "none",
            "disable": "none",
            "fixeddelay": "fixed-delay",
            "failurerate": "failure-rate",
            "exponentialdelay": "exponential-delay",
        },
    ),
    "when a failed job starts again; by default exponential-delay with checkpointing, none without",
    aliases=("restart-strategy",),
)
FIXED_DELAY_ATTEMPTS = option("restart-strategy.fixed-delay.attempts", COUNT, 1, "restarts before the job fails")
FIXED_DELAY_DELAY = option(
    "restart-strategy.fixed-delay.delay", DURATION, Duration.of_seconds(1), "time before each restart"
)
FAILURE_RATE_MAX_FAILURES = option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    COUNT,
    1,
    "failures within the interval that do not fail the job",
)
FAILURE_RATE_INTERVAL = option(
    "restart-strategy.failure-rate.failure-rate-interval",
    DURATION,
    Duration.of_minutes(1),
    "length of the interval in which failures are counted",
)
FAILURE_RATE_DELAY = option(
    "restart-strategy.failure-rate.delay", DURATION, Duration.of_seconds(1), "time before each restart"
)
EXPONENTIAL_INITIAL_BACKOFF = option(
    "restart-strategy.exponential-delay.initial-backoff",
    DURATION.where(lambda value: value.nanos > 0, "more than 0"),
    Duration.of_seconds(1),
    "time before the first restart",
)
EXPONENTIAL_MAX_BACKOFF = option(
    "restart-strategy.exponential-delay.max-backoff",
    DURATION.where(lambda value: value.nanos > 0, "more than 0"),
    Duration.of_minutes(1),
    "longest time before a restart",
)
EXPONENTIAL_MULTIPLIER = option(
    "restart-strategy.exponential-delay.backoff-multiplier",
    FLOAT.where(lambda value: value > 1, "more than 1"),
    1.5,
    "factor from one time before a restart to the next",
)
EXPONENTIAL_RESET_THRESHOLD = option(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    DURATION,
    Duration.of_hours(1),
    "time without a failure after which the first backoff holds again",
)
EXPONENTIAL_JITTER = option(
    "restart-strategy.exponential-delay.jitter-factor",
    FLOAT.where(lambda value: 0 <= value <= 1, "between 0 and 1"),
    0.1,
    "share of the backoff that is added or taken at random",
)
EXPONENTIAL_ATTEMPTS = option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    POSITIVE,
    2**31 - 1,
    "restarts without a reset before the job fails",
)

RESTART_OPTIONS: Final = options_in(vars())
