"""The kinds of store that what users see is played on, and an empty one of each.

Called by   the conftest.py of folders whose tests run on every store, and their tests.
Calls       the fixtures of tests/conftest.py.

All kinds are played on; TESTED_STORES="embedded redis" leaves out the cluster.

Not here: the servers (redis_server.py, redis_cluster.py), the store contract (tests/conformance).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tests.servers.patience import PATIENCE_S
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer

EMBEDDED: Final = "embedded"
_FIXTURES: Final = {"redis": "redis_server", "cluster": "redis_cluster"}
_PLAYED: Final = os.environ.get("TESTED_STORES", "embedded redis cluster").split()
# Stores that several brokers may share, each with the fixture that is its server.
SHARED: Final = {kind: _FIXTURES[kind] for kind in _PLAYED if kind != EMBEDDED}
ALL: Final = (EMBEDDED, *SHARED)


def on_every_kind(metafunc: pytest.Metafunc) -> None:
    """A test that uses `broker` runs once on each kind of store. As `pytest_generate_tests` of a
    file or of a conftest.py, it is for the tests there."""
    if "broker" in metafunc.fixturenames:
        metafunc.parametrize("broker", ALL, indirect=True, scope="module")


def empty_store_url(request: pytest.FixtureRequest, kind: str) -> str:
    """The URL of a shared store in which nothing is kept."""
    server: RedisServer | RedisCluster = request.getfixturevalue(SHARED[kind])
    server.flush()
    return server.url


def store_flags(request: pytest.FixtureRequest, kind: str) -> list[str]:
    """What a broker on an empty store of this kind is started with. It is patient: on a busy
    machine Redis may be silent for a while and yet be well."""
    if kind == EMBEDDED:
        return []
    return ["--store", empty_store_url(request, kind), "--store-timeout", f"{PATIENCE_S:g}"]


@contextmanager
def silent(server: RedisServer | RedisCluster) -> Iterator[None]:
    """Within, the store answers nothing."""
    nodes = server.primaries if isinstance(server, RedisCluster) else [server]
    for node in nodes:
        node.pause()
    try:
        yield
    finally:
        for node in nodes:
            node.go_on()
