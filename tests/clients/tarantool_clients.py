"""Clients of Tarantool's own protocol, connected to a broker.

Called by   tests/clients/test_asynctnt_queue.py, test_tarantool_python.py, tests/server.
Calls       asynctnt, tarantool.

Not here: bytes that no client sends (tests/server/test_tarantool_protocol.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asynctnt
import pytest
import tarantool

from tests.server.broker import RunningBroker
from tests.server.iproto import tarantool_port


def connection(broker: RunningBroker, **options: Any) -> asynctnt.Connection:
    """For `async with`; it does not connect again by itself."""
    return asynctnt.Connection(
        host="127.0.0.1", port=tarantool_port(broker), reconnect_timeout=0, **options
    )


def connected(broker: RunningBroker, **options: Any) -> tarantool.Connection:
    return tarantool.Connection(
        "127.0.0.1", tarantool_port(broker), reconnect_max_attempts=0, **options
    )


def play(broker: RunningBroker, scene: Callable[[asynctnt.Connection], Awaitable[None]]) -> None:
    """The scene is played on a new connection."""

    async def run() -> None:
        async with connection(broker) as client:
            await scene(client)

    asyncio.run(run())


async def made(client: asynctnt.Connection, tube: str, kind: str = "fifo", **options: Any) -> str:
    """There is an empty tube of that name; what functions of it begin with."""
    await client.call("queue.create_tube", [tube, kind, options])
    return f"queue.tube.{tube}"


async def told(client: asynctnt.Connection, function: str, *args: Any) -> Any:
    """What a function gives."""
    return (await client.call(function, list(args))).body


async def refused(client: asynctnt.Connection, function: str, *args: Any) -> tuple[int, str]:
    """The number and the text of the error that a function gives."""
    with pytest.raises(asynctnt.exceptions.TarantoolDatabaseError) as caught:
        await client.call(function, list(args))
    return int(caught.value.code), str(caught.value.message)
