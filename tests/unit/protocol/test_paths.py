from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.protocol.paths import (
    checkpoint_ids,
    checkpoint_of,
    is_job_directory,
    job_id_of_name,
    metadata_path,
    shared_path,
)

JOB = "0123456789abcdef" * 2


@given(st.text(min_size=1), st.integers(0, 99), st.integers(1, 10**9), st.integers(-(1 << 63), (1 << 64) - 1))
def test_name_of_a_shared_file_tells_its_checkpoint_for_any_uid(
    uid: str, subtask: int, checkpoint_id: int, token: int
) -> None:
    for suffix in ("", ".out"):
        path = shared_path(JOB, uid, subtask, checkpoint_id, token, suffix=suffix)
        assert checkpoint_of(path) == checkpoint_id
        assert path.count("/") == 2
        assert len(path.rpartition("/")[2]) < 200


def test_shared_files_of_long_uids_stay_apart() -> None:
    first, second = (shared_path(JOB, "u" * 300 + end, 0, 1, 1) for end in "ab")
    assert first != second


def test_foreign_name_tells_no_checkpoint() -> None:
    assert checkpoint_of(f"{JOB}/shared/readme-3.txt") is None


def test_only_checkpoint_directories_count() -> None:
    assert checkpoint_ids(["chk-10", "chk-9", "shared", "chk-", "chk-0", "chk-01", "xchk-3"]) == (9, 10)


def test_job_found_by_name_has_a_directory_like_any_other() -> None:
    assert is_job_directory(job_id_of_name("orders", JOB))
    assert len({job_id_of_name(name, mark) for name in ("orders", "order") for mark in (JOB, "0" * 32)}) == 4
    assert metadata_path(JOB, 3) == f"{JOB}/chk-3/_metadata"
