"""A space is a dictionary of rows with indexes, of which a call that fails leaves no trace."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quinque.drivers import ID, READY, STATE, TAKEN, Space
from quinque.drivers.index import BLOCK_MOST

INDEXES = {"state": (STATE, ID), "value": (2,), "two": (2, STATE)}


@pytest.fixture
def space() -> Space:
    space = Space("s")
    for name, parts in INDEXES.items():
        space.create_index(name, parts)
    space.begin(5)
    return space


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from((-0.5, 1.0, 2.5)),
    st.sampled_from(("", "a", "b")),
    st.sampled_from((b"", b"a", b"b")),
)
rows = st.tuples(st.integers(0, 12), st.sampled_from("rt~!"), values)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), rows),
        st.tuples(st.just("replace"), rows),
        st.tuples(st.just("update"), rows),
        st.tuples(st.just("delete"), st.integers(0, 12)),
        st.tuples(st.sampled_from(("undo", "keep", "truncate", "next")), st.none()),
    ),
    max_size=40,
)


@given(steps)
@settings(max_examples=150, deadline=None)
def test_a_space_is_what_a_dictionary_would_be(steps: list[tuple[str, Any]]) -> None:
    space = Space("s")
    for name, parts in INDEXES.items():
        space.create_index(name, parts)
    kept: dict[int, Any] = {}
    space.begin(0)
    model: dict[int, Any] = {}
    for word, given_ in steps:
        if word == "undo":
            space.undo()
            space.begin(0)
            model = dict(kept)
        elif word == "keep":
            changed = {id for id, was, now in space.changes() if was != now}
            assert changed == {id for id in {*kept, *model} if kept.get(id) != model.get(id)}
            space.end()
            space.begin(0)
            kept = dict(model)
        else:
            _step(space, model, word, given_)
        _check(space, model)


def _step(space: Space, model: dict[int, Any], word: str, given_: Any) -> None:
    if word == "next":
        assert space.next_id() not in model
    elif word == "truncate":
        assert space.truncate() == len(model)
        model.clear()
    elif word == "delete":
        if given_ in model:
            assert space.delete(given_) == model.pop(given_)
        else:
            with pytest.raises(KeyError):
                space.delete(given_)
    elif word == "insert" and given_[ID] in model:
        with pytest.raises(ValueError, match="already"):
            space.insert(given_)
    elif word == "update" and given_[ID] not in model:
        with pytest.raises(KeyError):
            space.update(given_[ID], {STATE: given_[STATE]})
    elif word == "update":
        model[given_[ID]] = given_
        space.update(given_[ID], {STATE: given_[STATE], 2: given_[2]})
    else:
        getattr(space, word)(given_)
        model[given_[ID]] = given_


def _check(space: Space, model: dict[int, Any]) -> None:
    assert len(space) == len(model)
    assert space.select("id") == [model[id] for id in sorted(model)]
    for name, parts in INDEXES.items():

        def key(row: Any, parts: tuple[int, ...] = parts) -> Any:
            return [_rank(row[part]) for part in (*parts, ID)]

        ordered = sorted(model.values(), key=key)
        assert space.select(name) == ordered
        assert space.select(name, is_reversed=True) == ordered[::-1]
        for row in ordered[:2]:
            first = row[parts[0]]
            found = [it for it in ordered if _rank(it[parts[0]]) == _rank(first)]
            assert space.select(name, (first,)) == found
            assert space.min(name, (first,)) == found[0]
            assert space.max(name, (first,)) == found[-1]


def _rank(value: Any) -> tuple[int, Any]:
    kinds = (type(None), bool, int | float, str, bytes)
    rank = next(n for n, kind in enumerate(kinds) if isinstance(value, kind))
    return rank, 0 if value is None else value


def test_rows_by_the_thousand_are_found_in_their_order(space: Space) -> None:
    count = 3 * BLOCK_MOST
    for id in range(count):
        space.insert((id, READY, id * 7919 % count))
    for id in range(0, count, 2):
        space.delete(id)

    found = [row[2] for row in space.select("value")]

    assert found == sorted(id * 7919 % count for id in range(1, count, 2))
    assert space.select("value", is_reversed=True, limit=3) == space.select("value")[:-4:-1]
    assert space.max("state", (READY,)) == space.get(count - 1)


def test_ids_go_on_from_the_largest_and_begin_anew_when_all_is_gone(space: Space) -> None:
    space.insert((7, READY, 1))

    assert space.next_id() == 8
    space.delete(7)
    assert space.next_id() == 9
    space.truncate()
    assert space.next_id() == 0


def test_what_is_undone_gives_its_ids_back(space: Space) -> None:
    space.next_id()
    space.end()
    space.begin(6)
    space.insert((space.next_id(), READY, 1))

    space.undo()
    space.begin(7)

    assert space.next_id() == 1
    assert len(space) == 0


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ((1,), "id and a state"),
        (("1", "r", 1), "is not an id"),
        ((True, "r", 1), "is not an id"),
        ((-1, "r", 1), "is not an id"),
        ((1 << 44, "r", 1), "is not an id"),
        ((1, "-", 1), "not a state of a row"),
        ((1, "r"), "does not have all columns of index"),
        ((1, "r", float("nan")), "cannot order rows by"),
        ((1, "r", [1]), "cannot order rows by"),
    ],
)
def test_a_row_that_cannot_be_kept_is_refused_and_changes_nothing(
    space: Space, row: tuple[Any, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        space.replace(row)

    assert space.changes() == []
    assert space.select("value") == []


def test_no_two_rows_have_what_must_be_unique(space: Space) -> None:
    space.create_index("only", (2,), is_unique=True)
    space.insert((1, READY, "a"))

    with pytest.raises(ValueError, match="'only' is unique, but row 1 already has"):
        space.insert((2, READY, "a"))

    with pytest.raises(
        ValueError, match="'fresh' is unique, but rows 1 and 3 have the same values"
    ):
        _with_two_alike().create_index("fresh", (2,), is_unique=True)
    space.update(1, {STATE: TAKEN})  # itself is not in its way
    space.update(1, {2: "b"})
    space.insert((2, READY, "a"))
    assert [row[ID] for row in space.select("only")] == [2, 1]


def _with_two_alike() -> Space:
    other = Space("other")
    other.load([(1, READY, "a"), (2, READY, "b"), (3, READY, "a")], next_id=0)
    return other


def test_rows_that_are_loaded_are_found_and_ids_go_on() -> None:
    other = Space("other")
    other.create_index("value", (2,))
    other.load([(id, READY, -id) for id in range(3000)], next_id=7000)

    assert [row[ID] for row in other.select("value", limit=2)] == [2999, 2998]
    assert len(other.select("id")) == 3000
    assert other.number == 7000


def test_an_index_is_made_once_and_of_columns(space: Space) -> None:
    with pytest.raises(ValueError, match="already"):
        space.create_index("state", (STATE,))
    with pytest.raises(ValueError, match="needs columns"):
        space.create_index("none", ())
    with pytest.raises(ValueError, match="has only 2"):
        space.select("state", (1, 2, 3))
    with pytest.raises(KeyError):
        space.select("nowhere")


def test_rows_change_within_a_call_only(space: Space) -> None:
    row = space.insert((1, READY, "a"))
    space.end()

    for change in (
        lambda: space.replace(row),
        lambda: space.update(1, {2: "b"}),
        lambda: space.delete(1),
        space.truncate,
        space.next_id,
    ):
        with pytest.raises(RuntimeError, match="during a call"):
            change()

    assert space.get(1) == row
    space.begin(0)
    with pytest.raises(ValueError, match="the id of a row cannot change"):
        space.update(1, {ID: 2})
