"""Short names for the settings of jobs in tests."""

from __future__ import annotations

from penstock.common.configuration import Configuration

#: By short name; a key may be given as it is, too.
KEYS = {
    "attempts": "restart-strategy.fixed-delay.attempts",
    "backlog": "execution.checkpointing.interval-during-backlog",
    "checkpoints": "execution.checkpointing.dir",
    "claim": "execution.state-recovery.claim-mode",
    "delay": "restart-strategy.fixed-delay.delay",
    "failures": "web.exception-history-size",
    "first": "penstock.allow-first-start",
    "fire": "penstock.drain.fire-processing-time-timers",
    "ignore": "execution.state-recovery.ignore-unclaimed-state",
    "inline": "execution.checkpointing.data-inline-threshold",
    "interval": "execution.checkpointing.interval",
    "jitter": "restart-strategy.exponential-delay.jitter-factor",
    "job_id": "penstock.job-id",
    "max_parallelism": "pipeline.max-parallelism",
    "pause": "execution.checkpointing.min-pause",
    "progress": "penstock.progress.enabled",
    "recover": "execution.state-recovery.path",
    "reopen": "penstock.restart-finished-sources",
    "restart": "restart-strategy.type",
    "retained": "execution.checkpointing.num-retained",
    "retention": "execution.checkpointing.externalized-checkpoint-retention",
    "retries": "sink.committer.retries",
    "savepoints": "execution.checkpointing.savepoint-dir",
    "timeout": "execution.checkpointing.timeout",
    "tolerable": "execution.checkpointing.tolerable-failed-checkpoints",
}


def configured(**settings: str) -> Configuration:
    """Return a configuration of settings by their short names or keys."""
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name if "." in name else KEYS[name], value)
    return configuration
