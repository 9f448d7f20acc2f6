"""The checks that every exactly-once sink must pass; a connector's author runs them on a sink with a readable target.

    def make():
        path = a_new_place()
        return SinkUnderTest(make_sink(path), lambda: read_rows(path), lambda: wipe_staging(path))

    SinkContract(make, records).check_all()

A :class:`SinkRun` plays the engine, one epoch after the other, with states and committables going through the sink's
own serializers.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.testing.connector_contexts import JOB_ID, TestWriterContext, columns_of
from penstock.testing.sink_run import SinkRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from penstock._api.connectors.sink import Sink

__all__ = ["SinkContract", "SinkUnderTest"]


@dataclass(frozen=True, slots=True)
class SinkUnderTest:
    """A sink with a new, empty target.

    Attributes:
        sink: The sink.
        read: Reads the published records of the target.
        lose_staged: Deletes all staged data, as a cleaner of temporary files would. Leave it out for a sink that stages
            with ``WriterInitContext.stage`` alone, as every `TransactionalSink` does, or whose committables contain
            the data.
        staged: What writers stage with ``WriterInitContext.stage``; it is lost, too, where ``lose_staged`` is called.
        unshared: A context in which the target is as a host sees it that does not share its disk, for example a folder
            that is renamed meanwhile; None for a target that is the same for all hosts, such as a server.
    """

    sink: Sink[Any]
    read: Callable[[], Iterable[Any]]
    lose_staged: Callable[[], None] = lambda: None
    staged: dict[str, bytes] = field(default_factory=dict[str, bytes])
    unshared: Callable[[], AbstractContextManager[object]] | None = None


class SinkContract:
    """The checks of one sink with a committer; each raises AssertionError with what is wrong.

    Args:
        make: Makes the sink with a new, empty target; called for each check.
        records: Records to write, all different; the target shows each as an equal one.
        to_batch: Makes an Arrow RecordBatch of some of them, to be written as columns. By default that is known of
            dicts; other records are written as records alone.

    Raises:
        TypeError: What ``make`` returns is no `SinkUnderTest`.

    Example:
        >>> from penstock.datastream.connectors.base import TransactionalSink
        >>> class ListSink(TransactionalSink[str]):
        ...     def __init__(self, target):
        ...         self.target = target
        ...
        ...     def write_transaction(self, transaction, records):
        ...         self.target.setdefault(transaction.id, list(records))
        >>> def make():
        ...     target = {}
        ...     return SinkUnderTest(ListSink(target), lambda: [row for rows in target.values() for row in rows])
        >>> SinkContract(make, ["a", "b", "c"]).check_all()
    """

    def __init__(
        self,
        make: Callable[[], SinkUnderTest],
        records: Sequence[Any],
        to_batch: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self._make_target: Callable[[], object] = make
        is_known = to_batch is None and all(isinstance(record, dict) for record in records)
        self._to_batch = columns_of if is_known else to_batch
        self._records = list(records)
        third = len(self._records) // 3
        self._epochs = [self._records[:third], self._records[third : 2 * third], self._records[2 * third :]]

    def __repr__(self) -> str:
        return f"<SinkContract: {len(self._records)} records>"

    def check_all(self) -> None:
        """Run all checks."""
        self.check_records_appear_once()
        self.check_nothing_appears_before_its_commit()
        self.check_committing_twice_is_committing_once()
        self.check_what_is_lost_before_its_commit_is_an_error()
        self.check_commit_on_a_host_that_does_not_see_what_is_staged()
        self.check_aborted_epoch_leaves_nothing()
        self.check_writers_that_are_kept_and_dropped()
        self.check_only_the_accepted_attempt_counts()
        self.check_commits_left_over_from_before_a_crash()
        self.check_restore_at_another_parallelism()
        self.check_going_back_to_an_older_checkpoint_loses_nothing()
        self.check_jobs_that_share_the_target()
        self.check_copy_takes_nothing_of_the_other_job()
        self.check_batches_are_written_as_their_records_are()
        self.check_empty_input()
        self.check_close_is_idempotent()

    def _make(self) -> SinkUnderTest:
        made = self._make_target()
        if not isinstance(made, SinkUnderTest):
            msg = (
                f"SinkContract was given a function that returns {made!r:.200}. Let it return "
                "SinkUnderTest(sink, read), where read() returns the records that the target has."
            )
            raise TypeError(msg)
        return made

    def check_records_appear_once(self) -> None:
        """All records are in the target once the last checkpoint is committed, in the order of one writer."""
        for keep_writers in (True, False):
            test = self._make()
            run = _run(test, keep_writers=keep_writers)
            for records in self._epochs:
                run.commit(run.epoch(records))
            run.commit(run.epoch(end_of_input=True))
            self._same(test, self._records, f"after the end with writers {'kept' if keep_writers else 'made anew'}")

    def check_nothing_appears_before_its_commit(self) -> None:
        """Written and prepared, but uncommitted data is not visible."""
        test = self._make()
        run = _run(test)
        checkpoint = run.epoch(self._records, end_of_input=True)
        self._same(test, [], "before the commit")
        run.commit(checkpoint)
        self._same(test, self._records, "after the commit")

    def check_committing_twice_is_committing_once(self) -> None:
        """A commit may be repeated, also by a new committer after later commits."""
        test = self._make()
        run = _run(test)
        first = run.epoch(self._epochs[0])
        run.commit(first)
        run.commit(first, may_be_committed=True)
        second = run.epoch([*self._epochs[1], *self._epochs[2]], end_of_input=True)
        run.commit(second)
        run.commit(first, may_be_committed=True)
        run.commit(second, may_be_committed=True)
        self._same(test, self._records, "after repeated commits")

    def check_what_is_lost_before_its_commit_is_an_error(self) -> None:
        """A first commit that misses staged data does not count as done: it raises, or has all records."""
        test = self._make()
        run = _run(test)
        checkpoint = run.epoch(self._records, end_of_input=True)
        test.lose_staged()
        test.staged.clear()
        try:
            run.commit(checkpoint)
        except Exception:  # noqa: BLE001 - whatever the committer raises, the job is notified of the loss
            return
        self._same(test, self._records, "after a commit that raised nothing, though what was staged had gone")

    def check_commit_on_a_host_that_does_not_see_what_is_staged(self) -> None:
        """A committer that sees nothing of what was staged raises, at any try; elsewhere a later one commits all."""
        for may_be_committed in (False, True):
            test = self._make()
            if test.unshared is None:
                return
            run = _run(test)
            checkpoint = run.epoch(self._records, end_of_input=True)
            with test.unshared():
                try:
                    run.commit(checkpoint, may_be_committed=may_be_committed)
                except Exception:  # noqa: BLE001 - whatever it raises, the job is notified of it
                    seen = True
                else:
                    seen = False
            assert seen, "a commit raised nothing on a host that sees nothing of what was staged"
            run.commit(checkpoint, may_be_committed=True)
            self._same(test, self._records, "after a commit that could see nothing, and another one that could")

    def check_aborted_epoch_leaves_nothing(self) -> None:
        """An epoch that is aborted after prepare_commit, or in the middle, counts only when it is run again."""
        test = self._make()
        run = _run(test)
        accepted = run.epoch(self._epochs[0])
        run.commit(accepted)
        run.epoch(self._epochs[1])  # prepared, but its checkpoint never completes
        run.close()
        again = _run(test, checkpoint=accepted)
        again.commit(again.epoch(self._epochs[1]))
        again.commit(again.epoch(self._epochs[2], end_of_input=True))
        self._same(test, self._records, "after an aborted epoch was run again")

    def check_writers_that_are_kept_and_dropped(self) -> None:
        """A writer may run any of the epochs, continue with the next one or not, and run some that never count."""
        for fates in product(("kept", "dropped", "void"), repeat=2):
            test = self._make()
            run = _run(test)
            run.commit(run.epoch(self._epochs[0]))
            for fate, records in zip(fates, self._epochs[1:], strict=True):
                if fate == "void":
                    run.void_epoch(records)
                elif fate == "dropped":
                    run.drop_writers()
                run.commit(run.epoch(records))
            run.commit(run.epoch(end_of_input=True))
            self._same(test, self._records, f"after epochs with writers {', '.join(fates)}")

    def check_only_the_accepted_attempt_counts(self) -> None:
        """Two attempts of one epoch may both prepare; the one that is not accepted changes nothing."""
        test = self._make()
        start = _run(test)
        before = start.epoch(self._epochs[0])
        start.commit(before)
        start.close()
        lost, accepted = _run(test, checkpoint=before), _run(test, checkpoint=before)
        lost.epoch(self._epochs[1])
        accepted.commit(accepted.epoch(self._epochs[1]))
        lost.epoch(self._epochs[2], end_of_input=True)  # a zombie that writes on
        lost.close()
        accepted.commit(accepted.epoch(self._epochs[2], end_of_input=True))
        self._same(test, self._records, "with a second attempt of the same epoch")

    def check_commits_left_over_from_before_a_crash(self) -> None:
        """Data that was prepared before a crash is committed after it, and then the run continues."""
        test = self._make()
        run = _run(test)
        checkpoint = run.epoch([*self._epochs[0], *self._epochs[1]])
        del run  # killed: nothing is closed
        again = _run(test, checkpoint=checkpoint)
        again.commit(checkpoint, may_be_committed=True)
        again.commit(again.epoch(self._epochs[2], end_of_input=True))
        self._same(test, self._records, "after a crash between checkpoint and commit")

    def check_restore_at_another_parallelism(self) -> None:
        """States of two writers may go to one or to three."""
        for parallelism in (1, 3):
            test = self._make()
            run = _run(test, 2)
            checkpoint = run.epoch(self._epochs[0], self._epochs[1])
            run.commit(checkpoint)
            run.close()
            again = _run(test, parallelism, checkpoint)
            again.commit(again.epoch(self._epochs[2], end_of_input=True))
            self._same(test, self._records, f"after a restore at parallelism {parallelism}")

    def check_going_back_to_an_older_checkpoint_loses_nothing(self) -> None:
        """Records written anew after an older checkpoint are not mistaken for those that were committed before.

        Penstock may refuse a second start from there, because its unfinished data may be published by then.
        """
        test = self._make()
        run = _run(test)
        older = run.epoch(self._epochs[0])
        run.commit(older)
        run.close()
        for _ in range(2):
            again = _run(test, checkpoint=older)
            try:
                again.commit(again.epoch([*self._epochs[1], *self._epochs[2]], end_of_input=True))
            except PenstockError:
                break  # what it continues with has been published since: an error says so
        seen = Counter(map(repr, test.read()))
        missing = Counter(map(repr, self._records)) - seen
        assert not missing, f"after going back to an older checkpoint {missing.total()} records are missing: {missing}"

    def check_jobs_that_share_the_target(self) -> None:
        """The commits of a job do not touch the staged data of another one, even with the same id."""
        for job_id in (uuid.uuid4().hex, JOB_ID):
            test = self._make()
            run, other = _run(test), _run(test, job_id=job_id, run_id="b" * 32)
            first = run.epoch(self._epochs[0])
            other.commit(other.epoch(self._epochs[1]))
            other.commit(other.epoch(end_of_input=True))
            run.commit(first)
            run.commit(run.epoch(self._epochs[2], end_of_input=True))
            self._same(test, self._records, f"after another job of {'this' if job_id == JOB_ID else 'another'} id")

    def check_copy_takes_nothing_of_the_other_job(self) -> None:
        """A job that starts from a checkpoint of another one, which continues, leaves it all that it has staged.

        Both write the records after the checkpoint, so a target may have records twice, but none is missing.
        """
        first = set(map(repr, self._epochs[0]))
        for is_first in (True, False):
            test = self._make()
            when = "before" if is_first else "after"
            try:
                self._copy(test, is_first=is_first)
            except PenstockError as error:
                text = f"with a copy that ended {when} the other continued, one of them cannot continue: {error}"
                raise AssertionError(text) from error
            seen = Counter(map(repr, test.read()))
            missing = Counter(map(repr, self._records)) - seen
            assert not missing, f"with a copy that ended {when} the other continued: {list(missing)[:3]} missing"
            often = {record for record, count in seen.items() if count > (1 if record not in first else 2)}
            assert not often, f"with a copy that ended {when} the other continued: {list(often)[:3]} too often"

    def _copy(self, test: SinkUnderTest, *, is_first: bool) -> None:
        run = _run(test)
        checkpoint = run.epoch(self._epochs[0])
        copy = _run(test, checkpoint=checkpoint, job_id=uuid.uuid4().hex, run_id="d" * 32)
        if not is_first:
            run.commit(checkpoint)
            run.commit(run.epoch(self._epochs[1]))
        copy.commit(checkpoint, may_be_committed=True)
        copy.commit(copy.epoch(self._epochs[2], end_of_input=True))
        if is_first:
            run.commit(checkpoint)
            run.commit(run.epoch(self._epochs[1]))
        run.commit(run.epoch(end_of_input=True))

    def check_batches_are_written_as_their_records_are(self) -> None:
        """Batches of columns may come in place of records and among them, in any epoch."""
        if self._to_batch is None:
            return
        first, second, third = self._epochs
        half = len(second) // 2
        for keep_writers in (True, False):
            test = self._make()
            run = _run(test, keep_writers=keep_writers)
            run.commit(run.epoch([self._to_batch(first)]))
            run.void_epoch([self._to_batch(second)])
            run.commit(run.epoch([*second[:half], self._to_batch(second).slice(half), *third[:1]]))
            run.commit(run.epoch([self._to_batch(third[1:])], end_of_input=True))
            self._same(test, self._records, "with batches of columns among the records")

    def check_empty_input(self) -> None:
        """A writer without records makes nothing to see."""
        test = self._make()
        run = _run(test, 2)
        run.commit(run.epoch())
        run.commit(run.epoch(end_of_input=True))
        self._same(test, [], "without any record")

    def check_close_is_idempotent(self) -> None:
        """A writer may be closed twice, with records that were never flushed."""
        test = self._make()
        writer = test.sink.create_writer(replace(TestWriterContext(), job_id=JOB_ID, staged=test.staged))
        writer.write_all(self._epochs[0])
        writer.close()
        writer.close()
        self._same(test, [], "after a writer was closed without a checkpoint")

    def _same(self, test: SinkUnderTest, expected: Sequence[Any], when: str) -> None:
        found, wanted = Counter(map(repr, test.read())), Counter(map(repr, expected))
        missing, extra = wanted - found, found - wanted
        assert not missing, f"{when}: {missing.total()} records missing, such as {list(missing)[:3]}"
        assert not extra, f"{when}: {extra.total()} records too many, such as {list(extra)[:3]}"


def _run(test: SinkUnderTest, *args: Any, **options: Any) -> SinkRun:
    return SinkRun(test.sink, *args, staged=test.staged, **options)
