"""What belongs to one broker: every callback that it scheduled carries its process.

A context variable says which process is running. Callbacks inherit it, so a killed process stops
at once: what it has scheduled is never run, and nothing of it is cleaned up.
"""

from __future__ import annotations

from contextvars import ContextVar


class Process:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.paused_until_s = 0.0
        self.skew_ns = 0  # how far its wall clock is ahead
        self.remains: list[object] = []  # kept, or Python would run the `finally` of coroutines


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def skew_ns() -> int:
    process = PROCESS.get()
    return process.skew_ns if process is not None else 0


class Ended(BaseException):
    """The process has ended itself: the callback that is running does not go on."""
