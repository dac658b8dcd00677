"""The stage that transcripts are played on: it ends, whatever its store has under way."""

from __future__ import annotations

from pathlib import Path

from quinque.stores.redis import ticks
from quinque.stores.redis.calls import Steps
from quinque.stores.redis.served import ServedRedisStore
from tests.transcripts.stage import Stage

STEPS = 50  # more than a store takes to close


def test_a_stage_ends_though_its_store_is_asking(tmp_path: Path, redis_url: str) -> None:
    """The notices of other brokers come when they come, also while the store is closed."""
    ended: list[bool] = []
    with Stage(tmp_path, 2, redis_url=redis_url) as stage:
        store = stage.store
        assert isinstance(store, ServedRedisStore)
        foreign = store.edge.foreign

        def look_many_times() -> Steps:
            for _ in range(STEPS):
                yield from ticks.look_at_partitions(store.edge)
            ended.append(True)

        end = foreign.end

        def ask_and_end() -> None:
            store._start_unasked(look_many_times())
            end()

        foreign.end = ask_and_end  # type: ignore[method-assign]

    assert ended == [True]
