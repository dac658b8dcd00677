"""A client of redis-py for the URL of a store.

Called by   cli/clean.py.
Calls       stores/redis/urls.py, which reads the URLs; redis-py.

Not here: stores, which have their own connections (stores/redis/link.py).
"""

from __future__ import annotations

from typing import Any

from redis import Redis, RedisCluster
from redis.cluster import ClusterNode
from redis.connection import parse_url
from redis.sentinel import Sentinel

from quinque.model.urls import split_url
from quinque.stores.redis.urls import RedisUrl, parse_store_url


def open_client(url: str) -> Redis | RedisCluster:
    """Return a client of the Redis. The client of a cluster has already read the list of its
    servers.

    Raises BadSetting, and for a cluster the errors of redis-py.
    """
    parsed = parse_store_url(url)
    if parsed.kind == "one":
        return Redis.from_url(url)
    options = _options(url)
    if parsed.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in parsed.addresses]
        return RedisCluster(startup_nodes=nodes, **options)
    return _behind_sentinels(parsed, options)


def _options(url: str) -> dict[str, Any]:
    """Return the options of the URL, apart from the addresses, with their names in redis-py."""
    parts = split_url(url)
    scheme = parts.scheme.partition("+")[0]
    user = parts.netloc.rpartition("@")[0]
    options = dict[str, Any](parse_url(f"{scheme}://{user}@host?{parts.query}"))
    del options["host"]
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    return options


def _behind_sentinels(parsed: RedisUrl, options: dict[str, Any]) -> Redis:
    login = {
        name: value
        for name in ("username", "password")
        if (value := options.pop(f"sentinel_{name}", None))
    }
    tls = {name: value for name, value in options.items() if name.startswith("ssl")}
    sentinel = Sentinel(list(parsed.addresses), sentinel_kwargs={**login, **tls})
    client: Redis = sentinel.master_for(parsed.service, **{**options, "db": parsed.login.db})
    return client
