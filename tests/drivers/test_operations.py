"""What tubes of drivers promise, whatever the driver does: verbs, owners, counts, durability."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quinque.drivers import Driver, Row
from quinque.drivers.driver import Options
from quinque.errors import BadRequest, NoKind, TouchRefused, TubeBusy, TubeExists
from quinque.model.states import State
from quinque.model.tube_ops import (
    AckTasks,
    BrowseTasks,
    DeleteTasks,
    DropTube,
    FindTubes,
    JoinSession,
    KickTasks,
    LeaveSession,
    LeaveSessions,
    MakeTube,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TruncateTube,
    TubeSettings,
)
from quinque.stores.pending import Pending
from tests.drivers.odd_drivers import Timed
from tests.drivers.workshop import ME, TUBE, YOU, Workshop

Workshops = Callable[..., Workshop]


@pytest.fixture
def plain(workshop: Workshops) -> Workshop:
    return workshop(plain=Driver)


def test_each_verb_does_what_it_says(plain: Workshop) -> None:
    assert plain.put(b"a") == (0, "r", b"a")
    assert plain.put_all(b"b", b"c", b"d") == [(1, "r", b"b"), (2, "r", b"c"), (3, "r", b"d")]
    assert plain.take() == (0, "t", b"a")
    assert plain.take_all(2, YOU) == [(1, "t", b"b"), (2, "t", b"c")]
    assert plain.ack(0) == (0, "-", b"a")
    assert plain.release(1, YOU) == (1, "r", b"b")
    assert plain.bury(2) == (2, "!", b"c")
    assert plain.bury(2) == (2, "!", b"c")
    assert plain.peek(3) == (3, "r", b"d")
    assert plain.delete(3) == (3, "-", b"d")
    assert plain.kick(5) == 1
    assert plain.all() == [(1, "r", b"b"), (2, "r", b"c")]
    view = plain.look()
    assert (view.ready, view.taken, view.delayed, view.buried, view.done) == (2, 0, 0, 0, 2)
    assert plain.calls() == {
        "put": 4,
        "take": 3,
        "ack": 1,
        "release": 1,
        "bury": 1,
        "kick": 1,
        "delete": 1,
    }


def test_only_who_took_a_task_may_ack_release_or_touch_it(plain: Workshop) -> None:
    plain.put_all(b"a", b"b")
    plain.take()

    assert plain.ack(0, YOU) is None
    assert plain.release(0, YOU) is None
    assert plain.touch(0, 5, YOU) is None
    assert plain.ack(1) is None  # nobody has taken it
    assert plain.ack(7) is None  # there is none
    assert plain.all() == [(0, "t", b"a"), (1, "r", b"b")]
    with pytest.raises(TouchRefused, match="plain queue does not support touch"):
        plain.touch(0, 5)
    assert plain.touch(0, 0) is None


def test_what_was_buried_deleted_or_acked_is_not_its_takers_any_more(plain: Workshop) -> None:
    plain.put_all(b"a", b"b", b"c")
    plain.take_all(3)
    plain.bury(0)
    plain.delete(1)
    plain.ack(2)

    assert [plain.ack(id) for id in range(3)] == [None] * 3
    assert plain.all() == [(0, "!", b"a")]


def test_ids_that_are_named_twice_or_are_none_are_acked_once(plain: Workshop) -> None:
    plain.put_all(b"a", b"b")
    plain.take_all(2)

    done = plain.store.run(AckTasks(TUBE, ME, [b"1", b"1", b"x", b"01", b"0"]))

    assert [it and it.body for it in done] == [b"b", None, None, None, b"a"]
    assert plain.store.run(AckTasks(TUBE, ME, [])) == []


def test_a_session_that_ends_gives_back_what_it_had_taken(plain: Workshop) -> None:
    plain.put_all(b"a", b"b", b"c")
    plain.take_all(2, YOU)
    plain.take()
    plain.store.ready.clear()

    plain.store.run(LeaveSession(YOU))

    assert plain.all() == [(0, "r", b"a"), (1, "r", b"b"), (2, "t", b"c")]
    assert plain.store.ready == {TUBE}
    assert plain.calls()["release"] == 2
    assert plain.store.run(ReturnTasks(TUBE)) == 1
    assert plain.look().taken == 0


def test_tasks_are_looked_through_by_state(plain: Workshop) -> None:
    plain.put_all(b"a", b"b", b"c", b"d")
    plain.take()
    plain.bury(2)

    def seen(state: State, count: int = 10) -> list[bytes]:
        return [view.body for view in plain.store.run(BrowseTasks(TUBE, state, count))]

    assert (seen(State.READY), seen(State.READY, 1)) == ([b"b", b"d"], [b"b"])
    assert (seen(State.LEASED), seen(State.DEAD), seen(State.DELAYED)) == ([b"a"], [b"c"], [])


def test_a_new_session_of_the_name_of_one_that_ended_does_not_have_its_tasks(
    plain: Workshop,
) -> None:
    """An operation makes 500 tasks of ended sessions ready, so some are still to come back."""
    plain.put_all(*[b"x"] * 1_600)
    plain.take_all(1_600)
    plain.store.run(LeaveSession(ME, 20))
    plain.clock.advance(20)
    plain.store.run(JoinSession(ME, is_new=True))

    assert plain.ack(1_599) is None
    assert plain.release(1_599) is None


def test_a_session_is_kept_for_as_long_as_it_says(plain: Workshop) -> None:
    plain.put(b"a")
    plain.take(YOU)
    plain.store.run(LeaveSession(YOU, keep_ms=1000))

    plain.pass_time(900)
    assert plain.peek(0) == (0, "t", b"a")
    plain.pass_time(200)

    assert plain.look().ready == 1


def test_a_task_that_is_ready_wakes_and_one_that_is_taken_does_not(plain: Workshop) -> None:
    ready = plain.store.ready
    plain.put(b"a")
    assert ready == {TUBE}
    ready.clear()
    plain.take()
    plain.peek(0)
    assert ready == set()
    plain.release(0)
    assert ready == {TUBE}


def test_a_driver_that_has_no_room_says_so_and_room_wakes(workshop: Workshops) -> None:
    class Two(Driver):
        def put(self, data: bytes, options: Options) -> Row | None:
            return None if len(self.space) == 2 else super().put(data, options)

    two = workshop(two=Two)

    assert two.put_all(b"a", b"b", b"c") == [(0, "r", b"a"), (1, "r", b"b")]
    assert two.put(b"c") is None
    two.take()
    two.store.ready.clear()
    two.ack(0)
    assert two.store.ready == {TUBE}
    assert two.put(b"c") == (2, "r", b"c")


def test_kick_by_ids_is_for_buried_ones_of_drivers_that_can(workshop: Workshops) -> None:
    class Counting(Driver):
        kick_task = None  # type: ignore[assignment]

    plain = workshop(plain=Driver, counting=Counting)
    plain.put_all(b"a", b"b", b"c")
    plain.bury(0)
    plain.bury(1)
    plain.store.ready.clear()

    assert plain.kick_these(1, 1, 2, 7) == 1

    assert plain.all() == [(0, "!", b"a"), (1, "r", b"b"), (2, "r", b"c")]
    assert plain.calls()["kick"] == 1
    assert plain.store.ready == {TUBE}
    plain.reopen()
    assert plain.peek(1) == (1, "r", b"b")
    plain.store.run(MakeTube(b"other", b"counting", TubeSettings()))
    with pytest.raises(BadRequest, match="can kick only by count"):
        plain.store.run(KickTasks(b"other", message_ids=[b"0"]))


def test_a_take_that_would_be_large_gives_fewer(plain: Workshop) -> None:
    plain.put_all(*[b"x" * 700_000] * 3)

    assert len(plain.take_all(3)) == 2
    with pytest.raises(BadRequest, match="no lanes"):
        plain.store.run(TakeTasks(TUBE, ME, lane=b"l"))


def test_options_come_as_they_were_said_spans_in_seconds(workshop: Workshops) -> None:
    heard: list[Options] = []

    class Listening(Driver):
        def put(self, data: bytes, options: Options) -> Row | None:
            heard.append(options)
            return super().put(data, options)

        def release(self, task_id: int, options: Options) -> Row:
            heard.append(options)
            return super().release(task_id, options)

    shop = workshop(listening=Listening)
    terms = TaskTerms(ttl_ms=1500, pri=3, delay_ms=10, lane=b"l")
    shop.store.run(PutTasks(TUBE, [b"a"], terms))
    shop.put(b"b", colour="red", ttl=7)
    shop.take()
    shop.store.run(ReleaseTasks(TUBE, ME, [b"0"], delay_ms=250, pri=1, body=b"new"))

    assert heard == [
        {"ttl": 1.5, "delay": 0.01, "pri": 3, "utube": b"l"},
        {"colour": "red", "ttl": 7},
        {"delay": 0.25, "pri": 1, "data": b"new"},
    ]


# -- tubes ---------------------------------------------------------------------------------------


def test_a_tube_is_made_once_and_of_kinds_that_are_there(plain: Workshop) -> None:
    with pytest.raises(TubeExists):
        plain.make("plain")
    with pytest.raises(NoKind, match="Unknown tube type other"):
        plain.store.run(MakeTube(b"t", b"other", TubeSettings()))
    assert plain.store.run(MakeTube(TUBE, b"plain", TubeSettings(), is_idempotent=True)) is False


def test_a_tube_is_dropped_with_its_rows_and_made_anew(plain: Workshop) -> None:
    plain.put_all(b"a", b"b")
    plain.take()
    with pytest.raises(TubeBusy):
        plain.store.run(DropTube(TUBE))
    plain.ack(0)

    assert plain.store.run(DropTube(TUBE)) is True
    assert plain.store.run(FindTubes()) == []
    plain.make("plain")
    assert plain.put(b"c") == (0, "r", b"c")
    plain.reopen()
    assert plain.all() == [(0, "r", b"c")]


def test_a_tube_that_is_truncated_begins_at_id_0(plain: Workshop) -> None:
    plain.put_all(b"a", b"b")
    plain.take()

    assert plain.store.run(TruncateTube(TUBE)) == 2
    assert plain.put(b"c") == (0, "r", b"c")
    plain.reopen()
    assert plain.all() == [(0, "r", b"c")]


# -- durability ----------------------------------------------------------------------------------


def test_rows_states_owners_and_ids_survive_a_restart(workshop: Workshops) -> None:
    shop = workshop(timed=Timed)
    shop.put_all(b"a", b"b", b"c", b"d", b"e")
    shop.put(b"later", delay=60)
    shop.take_all(2)
    shop.bury(3)
    shop.delete(4)
    before = shop.all()

    shop.reopen()

    assert shop.all() == before
    assert [letter for _, letter, _ in before] == ["t", "t", "r", "!", "~"]
    assert shop.ack(0) == (0, "-", b"a")
    assert shop.ack(1, YOU) is None
    assert shop.put(b"f") == (6, "r", b"f")


def test_an_id_is_not_used_again_after_a_restart(plain: Workshop) -> None:
    plain.put_all(b"a", b"b")
    plain.delete(1)
    plain.delete(0)

    plain.reopen()

    assert plain.put(b"c") == (2, "r", b"c")


def test_what_a_broker_that_died_had_taken_comes_back(plain: Workshop) -> None:
    plain.put(b"a")
    plain.take(b"a session of before")
    plain.reopen()
    assert plain.look().taken == 1

    plain.store.run(LeaveSessions())

    assert plain.all() == [(0, "r", b"a")]


def test_a_temporary_tube_is_empty_after_a_restart(workshop: Workshops) -> None:
    shop = workshop({"is_temporary": True}, plain=Driver)
    shop.put_all(b"a", b"b")
    shop.take()
    written = shop.store.journal.total_bytes
    shop.store.commit()
    assert shop.ack(0) == (0, "-", b"a")

    shop.reopen()

    assert shop.store.info()["body_bytes_in_memory"] == 0
    assert shop.all() == []
    assert shop.put(b"c") == (0, "r", b"c")
    assert written < 1000


def test_rows_are_in_memory_once_and_come_back_from_the_disk(plain: Workshop) -> None:
    plain.put_all(b"a" * 1000, b"b" * 1000)
    assert plain.store.bodies.in_memory > 2000
    plain.store.commit()
    assert plain.store.bodies.in_memory == 0
    plain.take()
    before = plain.all()

    plain.reopen()

    plain.store.commit()
    assert plain.store.bodies.in_memory == 0
    assert plain.all() == before
    assert plain.ack(0) == (0, "-", b"a" * 1000)
    plain.reopen(maxmemory=1)
    assert plain.all() == [(1, "r", b"b" * 1000)]
    assert plain.delete(1) == (1, "-", b"b" * 1000)
    assert plain.store.info()["messages"] == 0


def test_taken_tasks_are_released_a_little_at_a_time(workshop: Workshops) -> None:
    shop = workshop(plain=Timed)
    shop.put_all(*[b"%d" % number for number in range(1_500)])
    taken = shop.take_all(1_000) + shop.take_all(400, YOU)

    pending = shop.store.run(ReturnTasks(TUBE))
    assert isinstance(pending, Pending)
    assert shop.take() == (0, "t", b"0")  # it is ready, and taken again
    assert shop.ack(taken[-1][0], YOU) is not None
    left = []
    while not pending.is_settled:
        shop.store.tick()
        shop.store.commit()
        left.append(len(shop.store.run(BrowseTasks(TUBE, State.LEASED, 2_000))))

    assert left == [400, 1]
    assert pending.value() == 1_399
    assert shop.calls()["release"] == 1_399
    assert shop.ack(0) is not None


def test_a_tube_that_is_dropped_while_its_tasks_are_released_stays_dropped(
    workshop: Workshops,
) -> None:
    shop = workshop(plain=Driver)
    shop.put_all(*[b"x"] * 1_000)
    shop.take_all(1_000)
    pending = shop.store.run(ReturnTasks(TUBE))

    for number in range(500, 1_000):
        shop.store.run(DeleteTasks(TUBE, [b"%d" % number]))
    shop.store.run(DropTube(TUBE))
    shop.store.tick()

    assert pending.value() == 500
    assert shop.store.run(FindTubes()) == []
    shop.store.commit()
    assert shop.store.next_due_ms() > shop.store.now_ms()
