"""The faults that the campaign puts into the program."""

import ast
from pathlib import Path

from tests.campaign.mutations import draw, find

PROGRAM = b'''
LIMIT = 3
if TYPE_CHECKING:
    from x import y

@decorated(1)
class Queue(Base[2]):
    """1 + 1."""

    size: Literal[4] = 5

    def take(self, n: int = 6) -> int | None:
        assert n > 7
        if n >= LIMIT and not self.closed:
            raise FullError(f"{n + 8} is too much")
        for item in self.items:
            try:
                self.total += item
                self.last = item
            except KeyError:
                break
        return max(n, 9)
'''


def mutants(program: bytes) -> list[str]:
    return [f"{mutation.old} -> {mutation.new}" for mutation in find("queue.py", program)]


def test_what_is_changed_are_the_decisions_of_a_program() -> None:
    assert sorted(mutants(PROGRAM)) == sorted([
        "3 -> (4)",
        "5 -> (6)",
        "6 -> (7)",
        "9 -> (10)",
        "n >= LIMIT -> (n > LIMIT)",
        "n >= LIMIT and not self.closed -> (n >= LIMIT or not self.closed)",
        "n >= LIMIT and not self.closed -> (not (n >= LIMIT and (not self.closed)))",
        "not self.closed -> (self.closed)",
        'raise FullError(f"{n + 8} is too much") -> pass',
        "self.items -> ([])",
        "self.total += item -> pass",
        "self.total += item -> self.total -= item",
        "self.last = item -> pass",
        "KeyError -> (())",
        "break -> return",
        "max(n, 9) -> (None)",
    ])  # fmt: skip


def test_each_mutant_is_another_program() -> None:
    for mutation in find("queue.py", PROGRAM):
        mutant = mutation.apply(PROGRAM)
        compile(mutant, "queue.py", "exec")
        assert ast.dump(ast.parse(mutant)) != ast.dump(ast.parse(PROGRAM)), mutation.name


def test_a_draw_depends_on_its_seed_and_on_each_line_by_itself(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_bytes(PROGRAM)
    before = [mutation.name for mutation in draw(tmp_path, ["queue.py"], 1)]
    assert before == [mutation.name for mutation in draw(tmp_path, ["queue.py"], 1)]
    assert before != [mutation.name for mutation in draw(tmp_path, ["queue.py"], 2)]

    (tmp_path / "queue.py").write_bytes(b"def first() -> int:\n    return 1\n" + PROGRAM)
    after = [mutation.name for mutation in draw(tmp_path, ["queue.py"], 1)]
    assert [name for name in after if "first" not in name] == before


def test_a_draw_takes_each_line_once(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_bytes(PROGRAM)
    lines = [mutation.line for mutation in draw(tmp_path, ["queue.py"], 1)]
    assert len(lines) == len(set(lines)) == len({mutation.line for mutation in find("queue.py", PROGRAM)})
