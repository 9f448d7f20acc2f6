"""What a type checker is to find: each line that is marked has a mistake, and no other line has."""

from __future__ import annotations

from penstock.datastream import MapFunction, ReduceFunction, StreamExecutionEnvironment


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


class Joined(ReduceFunction[str]):
    def reduce(self, value1: str, value2: str) -> str:
        return value1 + value2


env = StreamExecutionEnvironment.get_execution_environment()
lines = env.from_collection(["to be"])
numbers = lines.map(len)

numbers.map(Length())  # mistake
numbers.map(str.upper)  # mistake
numbers.filter(lambda number: number.upper() == "A")  # mistake
numbers.union(lines)  # mistake
numbers.key_by(lambda number: number % 2).reduce(Joined())  # mistake
lines.flat_map(len)  # mistake
lines.get_nothing()  # mistake
