"""How much each call of a script did in Redis: counted, or in time of the processor.

Called by   test_script_work.py.
Calls       the scripts of the store, with a few lines before and after each.

Every value that a script hands to a command or gets from it counts as one, and so does every value
that a range command removes without naming it, and every value that is unpacked. So a script that
goes through all of a large queue shows, whichever way it goes, on a busy machine as on an idle one.

    with measured(server) as works:
        store.run(op)
        assert max(works()).amount < 50_000

The time is that of the processor, so other programs on the machine do not lengthen it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha1
from typing import Final, NamedTuple
from unittest.mock import patch

from quinque.stores.redis.scripts import SCRIPTS, Script
from tests.servers.redis_server import RedisServer

_KEY: Final = "test:works"
_BEFORE: Final = """
local test_redis, test_unpack, test_amount = redis, cmsgpack.unpack, 0
local test_removers = {ZUNIONSTORE = true, ZREMRANGEBYRANK = true, ZREMRANGEBYSCORE = true}
local function test_count(reply)
  local count = 1
  for _, value in ipairs(type(reply) == 'table' and reply or {}) do
    count = count + (type(value) == 'table' and test_count(value) or 1)
  end
  return count
end
local function test_noted(command, words, reply)
  test_amount = test_amount + words + test_count(reply)
  if test_removers[command] then
    test_amount = test_amount + reply
  end
  return reply
end
local redis = setmetatable({
  call = function(...) return test_noted((...), select('#', ...), test_redis.call(...)) end,
  pcall = function(...) return test_noted((...), select('#', ...), test_redis.pcall(...)) end,
}, {__index = redis})
local cmsgpack = setmetatable({
  unpack = function(packed) return test_noted('', 0, test_unpack(packed)) end,
}, {__index = cmsgpack})
local function test_script()
"""
_AFTER: Final = f"""
end
local test_result = test_script()
test_redis.call('RPUSH', '{_KEY}', '%s ' .. test_amount)
return test_result
"""
_TIMED_BEFORE: Final = """
local function test_used_s()
  local facts, used_s = redis.call('INFO', 'cpu'), 0
  for seconds in string.gmatch(facts, 'used_cpu_%a+_main_thread:([%d.]+)') do
    used_s = used_s + tonumber(seconds)
  end
  return used_s
end
local test_began_s = test_used_s()
local function test_script()
"""
_TIMED_AFTER: Final = f"""
end
local test_result = test_script()
local test_us = math.floor((test_used_s() - test_began_s) * 1000000)
redis.call('RPUSH', '{_KEY}', '%s ' .. test_us)
return test_result
"""


class Work(NamedTuple):
    """One call of a script: how much it did, or how long it took (µs)."""

    amount: int
    script: str


class _Measured(dict[str, Script]):
    def __init__(self, before: str, after: str) -> None:
        self._before, self._after = before.encode(), after

    def __missing__(self, name: str) -> Script:
        text = self._before + SCRIPTS[name].text + (self._after % name).encode()
        self[name] = Script(text, sha1(text, usedforsecurity=False).hexdigest().encode())
        return self[name]


@contextmanager
def measured(server: RedisServer, *, is_timed: bool = False) -> Iterator[Callable[[], list[Work]]]:
    """Every call of a script inside is measured. The function gives the calls since it was last
    called."""

    def works() -> list[Work]:
        with server.client() as client:
            rows = client.lrange(_KEY, 0, -1)
            client.delete(_KEY)
        return [Work(int(amount), name.decode()) for name, amount in map(bytes.split, rows)]

    texts = (_TIMED_BEFORE, _TIMED_AFTER) if is_timed else (_BEFORE, _AFTER)
    with patch("quinque.stores.redis.courier.SCRIPTS", _Measured(*texts)):
        yield works
