"""Tasks: what may be done to one in each state and by whom, and what is counted of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from quinque.errors import (
    QuinqueError,
    TouchRefused,
)
from quinque.model.states import State
from quinque.model.tube_ops import (
    KINDS,
    DropTube,
    MakeTube,
    ReleaseTasks,
    TubeSettings,
)
from quinque.stores.base import Store
from tests.conformance.tube_words import (
    ALL,
    ANN,
    BEN,
    BURIED,
    DELAYED,
    GONE,
    READY,
    TAKEN,
    TUBE,
    ack,
    begin,
    bury,
    calls,
    counts,
    delete,
    drop,
    kick,
    kick_these,
    make,
    peek,
    put,
    release,
    return_all,
    state,
    states,
    take,
    take_views,
    touch,
    truncate,
)

HOUR_MS = 3_600_000


# -- states ---------------------------------------------------------------------------------------

REACH: Final[dict[State, Callable[[Store], object]]] = {
    READY: lambda store: put(store, b"x"),
    DELAYED: lambda store: put(store, b"x", delay_ms=HOUR_MS),
    TAKEN: lambda store: (put(store, b"x"), take(store)),
    BURIED: lambda store: (put(store, b"x"), bury(store, b"0")),
}
AT: Final = {READY: 0, TAKEN: 1, DELAYED: 2, BURIED: 3}
ZERO: Final = b"0"

# What Ann does to the task 0 in each state, what that gives, and what it is then.
BY_STATE: Final[dict[str, tuple[Callable[[Store], object], dict[State, tuple[object, object]]]]] = {
    "take": (
        lambda store: take(store, 1),
        {
            READY: ([ZERO], TAKEN),
            DELAYED: ([], DELAYED),
            TAKEN: ([], TAKEN),
            BURIED: ([], BURIED),
        },
    ),
    "ack": (
        lambda store: ack(store, ZERO),
        {
            READY: ([None], READY),
            DELAYED: ([None], DELAYED),
            TAKEN: ([(ZERO, GONE)], GONE),
            BURIED: ([None], BURIED),
        },
    ),
    "ack by another": (
        lambda store: ack(store, ZERO, session=BEN),
        {at: ([None], at) for at in REACH},
    ),
    "release": (
        lambda store: release(store, ZERO),
        {
            READY: ([None], READY),
            DELAYED: ([None], DELAYED),
            TAKEN: ([(ZERO, READY)], READY),
            BURIED: ([None], BURIED),
        },
    ),
    "release with a delay": (
        lambda store: release(store, ZERO, delay_ms=1),
        {
            READY: ([None], READY),
            DELAYED: ([None], DELAYED),
            TAKEN: ([(ZERO, DELAYED)], DELAYED),
            BURIED: ([None], BURIED),
        },
    ),
    "release by another": (
        lambda store: release(store, ZERO, session=BEN, body=b"theirs"),
        {at: ([None], at) for at in REACH},
    ),
    "touch": (
        lambda store: touch(store, ZERO, by_ms=1),
        {
            READY: ([None], READY),
            DELAYED: ([None], DELAYED),
            TAKEN: ([(ZERO, TAKEN)], TAKEN),
            BURIED: ([None], BURIED),
        },
    ),
    "touch by another": (
        lambda store: touch(store, ZERO, by_ms=1, session=BEN),
        {at: ([None], at) for at in REACH},
    ),
    "bury": (lambda store: bury(store, ZERO), {at: ([(ZERO, BURIED)], BURIED) for at in REACH}),
    "delete": (lambda store: delete(store, ZERO), {at: ([(ZERO, GONE)], GONE) for at in REACH}),
    "kick": (
        lambda store: kick(store, 5),
        {READY: (0, READY), DELAYED: (0, DELAYED), TAKEN: (0, TAKEN), BURIED: (1, READY)},
    ),
    "kick by id": (
        lambda store: kick_these(store, ZERO),
        {READY: (0, READY), DELAYED: (0, DELAYED), TAKEN: (0, TAKEN), BURIED: (1, READY)},
    ),
    "return all": (
        return_all,
        {READY: (0, READY), DELAYED: (0, DELAYED), TAKEN: (1, READY), BURIED: (0, BURIED)},
    ),
    "truncate": (truncate, dict.fromkeys(REACH, (1, GONE))),
}


@pytest.mark.parametrize("word", BY_STATE)
def test_what_each_word_makes_of_a_task_in_each_state(store: Store, word: str) -> None:
    act, table = BY_STATE[word]
    begin(store, b"fifottl")
    for before, (answer, after) in table.items():
        REACH[before](store)
        assert state(store, ZERO) == before

        assert (act(store), state(store, ZERO)) == (answer, after), before

        numbers = [0, 0, 0, 0]
        if isinstance(after, State):
            numbers[AT[after]] = 1
            found = peek(store, ZERO)
            assert found is not None
            assert found.body == b"x"
        assert list(counts(store)[:4]) == numbers, before
        truncate(store)


def test_many_at_once_are_answered_one_by_one(store: Store) -> None:
    begin(store, b"fifottl")
    put(store, *[b"x"] * 6)
    take(store, 3)
    take(store, 1, BEN)

    assert ack(store, b"0", b"3", b"9", b"0", b"1") == [
        (b"0", GONE),
        None,
        None,
        None,
        (b"1", GONE),
    ]
    assert release(store, b"2", b"2", b"0") == [(b"2", READY), None, None]
    assert bury(store, b"4", b"0", b"4", b"3") == [
        (b"4", BURIED),
        None,
        (b"4", BURIED),
        (b"3", BURIED),
    ]
    assert delete(store, b"4", b"4", b"5") == [(b"4", GONE), None, (b"5", GONE)]
    assert counts(store) == (1, 0, 0, 1, 4)


def test_a_task_in_the_hands_of_one_session_may_go_to_another_by_way_of_the_tube(
    store: Store,
) -> None:
    begin(store, b"fifottl")
    put(store, b"x")
    take(store, 1, ANN)
    release(store, ZERO)
    take(store, 1, BEN)

    assert ack(store, ZERO, session=ANN) == [None]
    assert release(store, ZERO, session=ANN) == [None]
    assert touch(store, ZERO, by_ms=5, session=ANN) == [None]
    assert ack(store, ZERO, session=BEN) == [(ZERO, GONE)]


def test_whoever_took_a_task_that_is_buried_or_deleted_has_it_no_more(store: Store) -> None:
    begin(store)
    put(store, b"a", b"b")
    take(store, 2)
    bury(store, b"0")
    delete(store, b"1")

    assert ack(store, b"0", b"1") == [None, None]
    assert release(store, b"0", b"1") == [None, None]
    kick(store)
    assert ack(store, b"0") == [None]
    assert drop(store)


def test_kick_says_how_many_it_found(store: Store) -> None:
    begin(store)
    bury(store, *put(store, *[b"x"] * 5))

    assert [kick(store, count) for count in (0, 2, 100_500, 3)] == [0, 2, 3, 0]
    assert counts(store) == (5, 0, 0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_kick_by_ids_leaves_alone_what_is_not_named_or_not_buried(
    store: Store, kind: bytes
) -> None:
    begin(store, kind, width=9)
    put(store, *[b"x"] * 6)
    take(store)
    bury(store, b"1", b"2", b"3", b"4")

    # One twice, one ready, one taken, one that is not there, and what cannot be an id.
    ids = (b"3", b"1", b"3", b"5", b"0", b"77", b"003", b"-1", b"", b"x" * 40)
    assert kick_these(store, *ids) == 2

    assert [state(store, b"%d" % id) for id in range(6)] == [
        TAKEN, READY, BURIED, READY, BURIED, READY,
    ]  # fmt: skip
    assert calls(store)["kick"] == 2
    assert kick_these(store) == kick_these(store, b"3") == 0
    assert kick(store, 9) == 2


def test_kick_by_more_ids_than_fit_in_one_step(store: Store) -> None:
    begin(store)
    ids = put(store, *[b"x"] * 2_500)
    bury(store, *ids)

    assert kick_these(store, *reversed(ids[:2_300]), *ids[:900]) == 2_300

    assert counts(store) == (2_300, 0, 0, 200, 0)


@pytest.mark.parametrize("kind", [b"fifo", b"utube"])
def test_touch_is_for_tubes_with_times(store: Store, kind: bytes) -> None:
    begin(store, kind)
    put(store, b"x")
    take(store)

    with pytest.raises(TouchRefused, match=f"{kind.decode()} queue does not support touch"):
        touch(store, ZERO, by_ms=1)
    assert touch(store, ZERO, by_ms=0) == [None]
    assert calls(store) == {"put": 1, "take": 1}


def test_touch_by_nothing_is_nothing(store: Store) -> None:
    begin(store, b"fifottl")
    put(store, b"x", b"y")
    take(store)

    assert touch(store, b"0", b"1", b"7", by_ms=0) == [None, None, None]
    assert calls(store) == {"put": 2, "take": 1}


# -- release as something else --------------------------------------------------------------------


def test_a_task_is_released_with_other_data(store: Store) -> None:
    begin(store)
    for number, kind in enumerate(KINDS):
        name = b"%d" % number
        assert make(store, kind, name)
        put(store, b"one", b"two", queue=name, lane=b"l")
        take(store, queue=name)

        (view,) = store.run(ReleaseTasks(name, ANN, [ZERO], body=b"once more"))

        assert view is not None
        assert (view.message_id, view.state, view.body) == (ZERO, READY, b"once more")
        (given,) = take_views(store, queue=name)
        assert (given.message_id, given.body) == (ZERO, b"once more")
        ack(store, ZERO, queue=name)
        assert [it.body for it in take_views(store, queue=name)] == [b"two"]


@pytest.mark.parametrize("kind", [b"fifottl", b"limfifottl", b"utubettl"])
def test_a_task_is_released_with_another_priority(store: Store, kind: bytes) -> None:
    begin(store, kind, pri=5, width=10)
    ids = put(store, b"a", b"b", b"c")
    take(store, 3)

    assert release(store, ids[0], pri=6) == [(ids[0], READY)]
    assert release(store, ids[1], pri=5) == [(ids[1], READY)]
    assert release(store, ids[2], pri=0) == [(ids[2], READY)]

    assert take(store, ALL) == [ids[2], ids[1], ids[0]]
    release(store, *ids)
    assert take(store, ALL) == [ids[2], ids[1], ids[0]], "and so it stays"
    bury(store, *ids)
    kick(store, 1)
    assert states(store, *ids) == [BURIED, BURIED, READY]


def test_what_is_refused_changes_nothing(store: Store) -> None:
    begin(store, b"fifottl")
    put(store, b"x", pri=3)
    take(store)
    counted = calls(store)

    release(store, ZERO, session=BEN, pri=0, ttl_ms=1, body=b"y", delay_ms=5)
    for refused in (DropTube(TUBE), MakeTube(TUBE, b"fifo", TubeSettings())):
        with pytest.raises(QuinqueError):
            store.run(refused)

    found = peek(store, ZERO)
    assert found is not None
    assert (found.state, found.body) == (TAKEN, b"x")
    assert calls(store) == counted


# -- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_counted_in_the_reference_sequence(store: Store, kind: bytes) -> None:
    begin(store, kind)
    for number in range(5):
        put(store, b"x", lane=b"%d" % number)

    assert delete(store, b"4") == [(b"4", GONE)]
    assert take(store) == [b"0"]
    assert release(store, b"0") == [(b"0", READY)]
    assert take(store) == [b"0"]
    assert ack(store, b"0") == [(b"0", GONE)]
    assert bury(store, b"1", b"2") == [(b"1", BURIED), (b"2", BURIED)]
    assert kick(store) == 1
    assert take(store) == [b"1"]

    assert counts(store) == (1, 1, 0, 1, 2)
    assert calls(store) == {
        "put": 5,
        "delete": 1,
        "take": 3,
        "release": 1,
        "ack": 1,
        "bury": 2,
        "kick": 1,
    }


def test_what_was_not_done_is_not_counted(store: Store) -> None:
    begin(store, b"limfifottl", capacity=1)
    take(store)
    put(store, b"x")
    put(store, b"y")
    bury(store, b"0")
    bury(store, b"0")
    bury(store, b"7")
    kick(store, 9)
    for word in (ack, release, delete):
        word(store, b"7")
    touch(store, b"7", by_ms=1)
    touch(store, b"0", by_ms=1)
    take(store)
    assert touch(store, b"0", by_ms=1) == [(b"0", TAKEN)]

    assert calls(store) == {"put": 1, "bury": 1, "kick": 1, "take": 1, "touch": 1}
    assert counts(store) == (0, 1, 0, 0, 0)
