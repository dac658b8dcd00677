"""A slot whose work fails rests, longer each time, and is not tried thousands of times a second."""

from __future__ import annotations

from contextlib import closing

from quinque.model.families import JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.work_ops import Add, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.redis.alarms import SlotAlarms
from quinque.stores.redis.store import RedisStore
from tests.servers.redis_server import RedisServer

SLOT, OTHER = b"quinque:{a}:", b"quinque:{b}:"


def test_a_slot_that_failed_rests_twice_as_long_each_time() -> None:
    alarms = SlotAlarms()
    now_ms, rests = 1_000, []
    for _ in range(10):
        alarms.set(SLOT, now_ms)
        assert alarms.take(now_ms) == SLOT
        alarms.rest(SLOT, now_ms)
        rests.append(alarms.next_ms() - now_ms)
        now_ms = alarms.next_ms()

    assert rests == [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]


def test_what_a_script_answers_meanwhile_does_not_end_the_rest() -> None:
    alarms = SlotAlarms()
    alarms.rest(SLOT, 1_000)

    alarms.set(SLOT, 900)
    alarms.set(SLOT, 900, is_timer=True)
    assert alarms.next_ms() == 1_050
    assert alarms.take(1_049) is None


def test_other_slots_do_not_rest() -> None:
    alarms = SlotAlarms()
    alarms.rest(SLOT, 1_000)

    alarms.set(OTHER, 900)
    assert alarms.take(1_000) == OTHER


def test_a_slot_that_succeeded_is_prompt_again() -> None:
    alarms = SlotAlarms()
    alarms.rest(SLOT, 1_000)
    assert alarms.take(1_050) == SLOT

    alarms.work(SLOT)
    alarms.set(SLOT, 900)
    assert alarms.take(1_051) == SLOT
    assert alarms.next_ms() == NEVER_MS


def test_a_broker_whose_redis_refuses_to_write_waits_before_it_tries_again() -> None:
    clock = ManualClock()
    with RedisServer() as server, closing(RedisStore(server.url, clock=clock)) as store:
        store.run(Add(JOBS, b"w", [b"1"], Terms(600_000, retry_ms=1_000)))
        store.run(Take(JOBS, [b"w"]))
        server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
        clock.advance(10_000)

        store.tick()
        assert store.next_due_ms() > store.now_ms()
        server.ask("CONFIG", "SET", "min-replicas-to-write", 0)
        clock.advance(10_000)
        store.tick()
        assert store.run(Take(JOBS, [b"w"]))


def test_alarms_that_were_replaced_do_not_pile_up() -> None:
    alarms = SlotAlarms()
    day_ms = 86_400_000
    for now_ms in range(10_000):
        alarms.set(SLOT, now_ms + day_ms)
        alarms.set(SLOT, now_ms + 60_000)
        alarms.set(OTHER, now_ms + day_ms, is_timer=True)

    assert len(alarms) < 2_000
    assert alarms.next_ms() == 9_999 + 60_000
    assert alarms.take(2 * day_ms) == SLOT
    assert alarms.take(2 * day_ms) == OTHER
    assert alarms.next_ms() == NEVER_MS
