"""Redis Work Queue, as a library: a drop-in for the package redis_work_queue, on the same keys.

    from quinque.workqueue import Item, KeyPrefix, WorkQueue       blocks, on redis.Redis
    from quinque.workqueue.aio import WorkQueue                    awaits, on redis.asyncio.Redis

key_prefix.py  KeyPrefix: names that begin alike
item.py        Item: an id and data
sync.py        WorkQueue and DeepClean for programs that wait
aio.py         the same for programs that await
direct.py      a call with less around it
session.py     what both have in common
steps.py       what an operation asks Redis for, awaited or not
keys.py        the keys of one queue
working.py     adding, leasing, completing, as steps
lists.py       reading a list that others change meanwhile, as steps
cleaning.py    light and deep cleaning, as steps
counts.py      what a cleaning did
scripts.py     the Lua scripts; each is one round trip

It works on a Redis or a Redis Cluster with redis-py only (the extra `redis`), without a
broker.
"""

from __future__ import annotations

from quinque.workqueue.counts import CleanCounts, Progress
from quinque.workqueue.item import Item
from quinque.workqueue.key_prefix import KeyPrefix
from quinque.workqueue.sync import DeepClean, LightClean, WorkQueue

__all__ = ["CleanCounts", "DeepClean", "Item", "KeyPrefix", "LightClean", "Progress", "WorkQueue"]
