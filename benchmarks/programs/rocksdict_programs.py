"""The reads and writes of a keyed state workload on RocksDB without an engine.

Usage: rocksdict_programs.py keyed_state RECORDS KEYS

Two processes, each with a database of its own and the keys of one parity: as subtasks have them behind a key_by, but
nothing is routed, pickled or checkpointed. Each record costs one get and one put of a counter of eight bytes. Memory is
what a subtask of Penstock gets: 256 MiB, three quarters of it block cache. No write-ahead log, as in Flink.
"""

import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteOptions

MEMORY = 256 << 20
PROCESSES = 2


def database(folder: Path) -> Rdict:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(MEMORY * 3 // 4))
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(MEMORY // 8)
    options.set_max_write_buffer_number(2)
    options.set_max_background_jobs(2)
    db = Rdict(str(folder), options)
    write = WriteOptions()
    write.disable_wal = True
    db.set_write_options(write)
    return db


def keyed_state(parity: int, records: int, keys: int, folder: Path) -> tuple[int, int, int]:
    db = database(folder)
    last = max(1, records // keys)
    count = total = squares = 0
    for i in range(parity, records, PROCESSES):
        key = i * 2654435761 % keys
        name = key.to_bytes(8, "big")
        before = db.get(name)
        seen = 1 if before is None else int.from_bytes(before, "big") + 1
        db.put(name, seen.to_bytes(8, "big"))
        if seen == last:
            count += 1
            total += key
            squares += key * key
    db.flush()
    db.close()
    return count, total, squares


def main(records: int, keys: int) -> None:
    with tempfile.TemporaryDirectory() as folder, get_context("spawn").Pool(PROCESSES) as pool:
        parts = pool.starmap(
            keyed_state, [(parity, records, keys, Path(folder, str(parity))) for parity in range(PROCESSES)]
        )
    print("RESULT", *(sum(column) for column in zip(*parts, strict=True)))


if __name__ == "__main__":
    main(int(sys.argv[2]), int(sys.argv[3]))
