"""Several brokers in one URL: they share a store, or are refused, in both colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from quinque.client.addresses import Address
from quinque.client.homes import ASKED, Home, check_home, home_of
from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting
from tests.client.conftest import Opener
from tests.server.broker import RunningBroker, start_broker


def test_brokers_that_keep_folders_of_their_own_are_refused_when_it_shows(
    opener: Opener, embedded_broker: RunningBroker, tmp_path: Path, queue: str
) -> None:
    with start_broker(tmp_path, "--fsync", "no") as first:
        url = f"redis://127.0.0.1:{first.port},127.0.0.1:{embedded_broker.port}"
        jobs = opener.connect(url, retries=0).jobs(queue)
        assert jobs.add(b"x")
        first.kill()

        for _ in range(2):
            with pytest.raises(BadSetting, match="do not share a store"):
                jobs.add(b"y", key="k")
        first.restart()
        assert jobs.take().body == b"x"

    assert opener.connect(f"redis://127.0.0.1:{embedded_broker.port}").jobs(queue).info() is None


def test_one_broker_may_be_named_by_several_addresses_and_begin_anew(
    embedded_broker: RunningBroker,
) -> None:
    with Broker(f"redis://127.0.0.1:{embedded_broker.port}") as asked:
        home = home_of([asked.call(*words) for words in ASKED])
    homes: dict[Address, Home] = {}
    assert home is not None

    for address in (Address("127.0.0.1", 1), Address("localhost", 1)):
        check_home(homes, address, home)
    assert not home.is_shared
    with pytest.raises(BadSetting, match=r"other:1 and 127\.0\.0\.1:1 do not share a store"):
        check_home(homes, Address("other", 1), Home(b"another", is_shared=True))
    homes.popitem()
    check_home(homes, Address("127.0.0.1", 1), Home(b"of a folder that was emptied", False))


def test_brokers_on_one_redis_stand_in_for_each_other(
    opener: Opener, redis_broker: RunningBroker, tmp_path: Path, queue: str
) -> None:
    with start_broker(tmp_path, *redis_broker.flags) as first:
        url = f"redis://127.0.0.1:{first.port},127.0.0.1:{redis_broker.port}"
        jobs = opener.connect(url, retries=2).jobs(queue)
        id = jobs.add(b"x", key="k")
        first.kill()

        assert jobs.find("k") == id
