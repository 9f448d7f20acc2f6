from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from penstock._engine.state.files import pickles


@pytest.mark.parametrize("value", [None, 1, "a", [1, {"a": (2.5, b"x")}], {1, 2}], ids=repr)
def test_plain_values_are_plain_pickles(value: Any) -> None:
    assert pickle.loads(pickles.dump(value)) == value
    assert pickles.load(pickles.dump(value)) == value


def test_value_that_pickle_cannot_name_is_left_to_cloudpickle() -> None:
    class Local:
        def __init__(self) -> None:
            self.number = 7

    assert pickles.load(pickles.dump(Local())).number == 7


#: A task: it got the script's class through cloudpickle, as functions travel.
TASK = """
import sys, pickle, cloudpickle
from penstock._engine.state.files import pickles
kind = cloudpickle.loads(bytes.fromhex(sys.argv[1]))
if sys.argv[2] == "write":
    print(pickles.dump([kind(7)]).hex())
else:
    (value,) = pickles.load(bytes.fromhex(sys.argv[3]))
    assert type(value) is kind, type(value)
    print(value.shown())
"""

SCRIPT = """
import cloudpickle
from dataclasses import dataclass
@dataclass
class Event:
    number: int
    def shown(self):
        return f"{text} {{self.number}}"
print(cloudpickle.dumps(Event).hex())
"""


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_instances_of_the_main_scripts_classes_come_back_as_the_class_that_the_job_has_now() -> None:
    first = run(SCRIPT.format(text="written by the first run:"))
    second = run(SCRIPT.format(text="read by the second run:"))
    stored = run(TASK, first, "write")
    assert len(stored) < 200  # by name: the class itself is not in it
    assert run(TASK, second, "read", stored) == "read by the second run: 7"
