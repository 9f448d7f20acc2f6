"""The values that go from Kafka to Kafka, and what each side does with one."""


def value_of(number: int) -> str:
    """Return a value of 100 bytes."""
    return f"{number:012d} {'x' * 87}"


def changed(text: str) -> str:
    return f"{int(text[:12]) * 3 + 1:012d}{text[12:]}"
