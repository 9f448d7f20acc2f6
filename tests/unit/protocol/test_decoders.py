"""Decoders of classes that several threads ask for at the same moment, for the first time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[3] / "src"

#: Classes that nothing has decoded before, each by four threads that change places as often as they can.
AT_ONCE = """
import sys, threading, types
import msgspec
from penstock._engine.protocol.decoders import json_decoder, msgpack_decoder
sys.setswitchinterval(1e-6)
source = "from __future__ import annotations\\nfrom dataclasses import dataclass\\n"
source += "@dataclass\\nclass Inner:\\n    a: int\\n    b: str = ''\\n@dataclass\\nclass Asked:\\n"
source += "".join(f"    f{i}: dict[str, list[Inner]]\\n" for i in range(20))
value = {f"f{i}": {"x": [{"a": 1, "b": "y"}]} for i in range(20)}
for number in range(40):
    module = sys.modules[f"m{number}"] = types.ModuleType(f"m{number}")
    exec(source, module.__dict__)
    start, decoded = threading.Barrier(4), []
    def work(of, data):
        start.wait()
        decoded.append(of(module.Asked).decode(data))
    ways = [(msgpack_decoder, msgspec.msgpack.encode(value)), (json_decoder, msgspec.json.encode(value))] * 2
    threads = [threading.Thread(target=work, args=way) for way in ways]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert len(decoded) == 4 and all(one == decoded[0] for one in decoded)
"""


def test_first_decoding_of_a_class_by_several_threads_at_once_ends_no_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE], env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


#: A type given with the data, or a decoder made in place; of plain types nothing is noted anywhere.
GIVEN = re.compile(r"msgspec\.(?:json|msgpack)\.(?:decode\([^\n]*type=(?!list\[(?:bytes|Any|int|tuple))|Decoder\()")


def test_classes_are_decoded_by_the_decoders_that_are_made_under_the_lock() -> None:
    # Blocks have decoders of tuples of plain types, which are made in the one thread of a task; a JSON codec has one of
    # classes that are made for it alone.
    apart = {"decoders.py", "blocks.py", "json_reading.py"}
    others = [path for path in SOURCES.rglob("*.py") if path.name not in apart]
    assert [path for path in others if GIVEN.search(path.read_text())] == []
