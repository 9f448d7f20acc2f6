"""TimerService: the two clocks and their timers (``pyflink.datastream.timerservice``)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock._shelf import show

__all__ = ["TimerService"]


class TimerService(ABC):
    """The two clocks of a function, and the timers of the current key.

    A timer is set once per key, time and clock: setting it again changes nothing. All times are milliseconds since the
    epoch.

    Source: org.apache.flink.streaming.api.TimerService.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the clock's time."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the watermark; -2**63 before the first one."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Set a timer: ``on_timer`` is called once the clock reaches the time."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Set a timer: ``on_timer`` is called once the watermark reaches the time."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Take back a timer; without effect when there is none at that time."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Take back a timer; without effect when there is none at that time."""


show("penstock.datastream.timerservice", TimerService)
