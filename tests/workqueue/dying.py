"""A client of Redis that dies after so many commands, wherever the program that uses it then is.

Called by   test_stops.py.
Calls       redis-py.

Not here: what is done about it (cleaning).
"""

from __future__ import annotations

from typing import Any

import redis


class Died(Exception):
    """The worker is no more."""


class DyingRedis(redis.Redis):
    """Carries out `lives` commands; before the next one it dies.

    A transaction is one command: Redis carries out all of it or nothing.
    """

    lives: int = 1 << 30

    def execute_command(self, *words: Any, **options: Any) -> Any:
        self.spend()
        execute: Any = super().execute_command
        return execute(*words, **options)

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:
        made = super().pipeline(transaction, shard_hint)
        execute = made.execute

        def execute_or_die(raise_on_error: bool = True) -> Any:
            self.spend()
            return execute(raise_on_error)

        made.execute = execute_or_die  # type: ignore[method-assign]
        return made

    def spend(self) -> None:
        if self.lives == 0:
            raise Died
        self.lives -= 1
