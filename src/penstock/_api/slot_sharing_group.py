"""SlotSharingGroup and MemorySize (``pyflink.datastream.slot_sharing_group``): accepted, without effect.

Flink's groups say which operators may share a slot of a task manager. Here Spark's tasks are the slots, and every level
of a job uses all of them in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock._shelf import show

__all__ = ["MemorySize", "SlotSharingGroup"]

#: Why groups of slots, and the resources that they ask for, do nothing.
SLOTS_ARE_TASKS = "Spark's tasks are the slots, and every level of a job uses all of them in turn"


@dataclass(frozen=True, slots=True, order=True)
class MemorySize:
    """An amount of memory.

    Args:
        bytes_size: The number of bytes.

    Source: org.apache.flink.configuration.MemorySize.

    Example:
        >>> MemorySize.of_mebi_bytes(2048).get_gibi_bytes()
        2
    """

    bytes_size: int

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Make an amount out of mebibytes."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """Return the number of bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """Return the number of whole kibibytes."""
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        """Return the number of whole mebibytes."""
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        """Return the number of whole gibibytes."""
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        """Return the number of whole tebibytes."""
        return self.bytes_size >> 40

    def __str__(self) -> str:
        return f"{self.bytes_size} bytes"


_NONE = MemorySize(0)


@dataclass(frozen=True, slots=True)
class SlotSharingGroup:
    """A name for operators that may share a slot, with the resources that they ask for; without effect here.

    Args:
        name: The name of the group.
        cpu_cores: Cores of a slot.
        task_heap_memory: Memory of Java objects.
        task_off_heap_memory: Memory of Java beside its objects.
        managed_memory: Memory of Flink's own.
        external_resources: Other resources by name.

    Source: org.apache.flink.api.common.operators.SlotSharingGroup.

    Example:
        >>> heavy = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(512).build()
        >>> heavy.get_name(), heavy.get_managed_memory()
        ('heavy', MemorySize(bytes_size=0))
    """

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: dict[str, float] = field(default_factory=dict[str, float], hash=False)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Start a group."""
        return SlotSharingGroup.Builder(SlotSharingGroup(name))

    def get_name(self) -> str:
        """Return the name of the group."""
        return self.name

    def get_cpu_cores(self) -> float | None:
        """Return the cores of a slot; None when they were not set."""
        return self.cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the memory of Java objects; None when it was not set."""
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the memory of Java beside its objects; None when it was not set."""
        return self.task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """Return the memory of Flink's own; None when it was not set."""
        return self.managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Return other resources by name."""
        return dict(self.external_resources)

    class Builder:
        """A group that is being made."""

        def __init__(self, group: SlotSharingGroup) -> None:
            self._group = group

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the cores of a slot.

            Raises:
                ValueError: They are not positive.
            """
            if not cpu_cores > 0:
                msg = f"The cores of slot sharing group {self._group.name!r} must be positive, not {cpu_cores!r}."
                raise ValueError(msg)
            self._group = replace(self._group, cpu_cores=cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of Java objects.

            Raises:
                ValueError: It is 0.
            """
            if not task_heap_memory > _NONE:
                msg = f"The task heap memory of slot sharing group {self._group.name!r} must be positive."
                raise ValueError(msg)
            self._group = replace(self._group, task_heap_memory=task_heap_memory)
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of Java objects in mebibytes."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of Java beside its objects."""
            self._group = replace(self._group, task_off_heap_memory=task_off_heap_memory)
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of Java beside its objects in mebibytes."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of Flink's own."""
            self._group = replace(self._group, managed_memory=managed_memory)
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of Flink's own in mebibytes."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set an amount of another resource."""
            resources = {**self._group.external_resources, name: value}
            self._group = replace(self._group, external_resources=resources)
            return self

        def build(self) -> SlotSharingGroup:
            """Return the group; with cores and heap memory, other memory that was not set is 0.

            Raises:
                ValueError: It asks for a resource, but not for both cores and task heap memory.
            """
            group = self._group
            if group == SlotSharingGroup(group.name):
                return group
            if group.cpu_cores is None or group.task_heap_memory is None:
                msg = (
                    f"Slot sharing group {group.name!r} asks for resources, so it must have both set_cpu_cores() and "
                    f"set_task_heap_memory(), as in Flink."
                )
                raise ValueError(msg)
            return replace(
                group,
                task_off_heap_memory=group.task_off_heap_memory or _NONE,
                managed_memory=group.managed_memory or _NONE,
            )


show("penstock.datastream.slot_sharing_group", MemorySize, SlotSharingGroup)
