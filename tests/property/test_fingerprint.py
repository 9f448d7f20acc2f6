"""A function's digest is one for the same program in every process, and another for each value that it captures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.fingerprint_values import CONTAINERS, KINDS, Recipe, changed, digest

ROOT = Path(__file__).parents[2]
#: Kinds that take milliseconds each are in the list of all kinds, and seldom drawn.
_LEAVES = st.tuples(st.sampled_from(sorted(set(KINDS) - {"deep", "long", "many"})), st.integers(0, 40)).map(list)
_RECIPES = st.recursive(
    _LEAVES,
    lambda inner: st.tuples(st.sampled_from(sorted(CONTAINERS)), st.lists(inner, min_size=1, max_size=4)).map(list),
    max_leaves=6,
)
#: What is compared with other processes: all kinds, and what was drawn.
_seen: dict[str, str] = {}


@settings(deadline=None)
@given(_RECIPES, st.data())
def test_a_changed_value_has_another_digest_and_an_equal_one_the_same(recipe: Recipe, data: st.DataObject) -> None:
    found = digest(recipe)
    assert digest(recipe) == found
    assert digest(changed(recipe, lambda size: data.draw(st.integers(0, size - 1)))) != found
    _seen[json.dumps(recipe)] = found


def test_every_kind_of_value_counts() -> None:
    blind = [kind for kind in KINDS if digest([kind, 3]) == digest([kind, 4])]
    assert blind == []


def test_an_unchanged_value_has_one_digest_under_every_seed_of_hashes() -> None:
    recipes = {json.dumps([kind, 5]): digest([kind, 5]) for kind in KINDS} | _seen
    for seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", "from tests.property.fingerprint_values import main; main()"],
            input="\n".join(recipes),
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONHASHSEED": seed},
        ).stdout.split()
        differ = [recipe for recipe, each in zip(recipes, printed, strict=True) if recipes[recipe] != each]
        assert differ == []
