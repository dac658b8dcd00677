"""What the scripts of cleaning decide anew, for others go on working after the lists were read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quinque.workqueue.scripts import SCRIPTS
from tests.workqueue.stage import Picture, Place

Settle = Callable[..., Any]


class Keys:
    """The keys of a queue, to be put as a test wants them, and the two scripts."""

    def __init__(self, raw: Any, prefix: str) -> None:
        self.raw = raw
        self.prefix = prefix

    def items(self, *ids: str) -> None:
        for id in ids:
            self.raw.set(f"{self.prefix}:item:{id}", f"data of {id}")

    def leases(self, kind: str, *ids: str) -> None:
        for id in ids:
            self.raw.set(f"{self.prefix}:{kind}:{id}", "somebody", ex=60)

    def lists(self, waiting: str = "", processing: str = "") -> None:
        """From the left to the right, a letter each."""
        for name, ids in (("queue", waiting), ("processing", processing)):
            if ids:
                self.raw.rpush(f"{self.prefix}:{name}", *ids)

    def settle(self, landmark: str, *pairs: str, part: tuple[int, int] = (0, 0)) -> Any:
        words = [word for pair in pairs for word in (pair[0], pair[1:])]
        has_landmark = int(bool(landmark))
        return self._run("settle", has_landmark, landmark, *part, *words)

    def drop(self, part: tuple[int, int], *triples: tuple[str, str, int]) -> Any:
        return self._run("drop", *part, "mark", *(word for row in triples for word in row))

    @property
    def seen(self) -> tuple[str, str]:
        picture = Picture(self.raw, self.prefix)
        return "".join(picture.waiting), "".join(picture.processing)

    def _run(self, name: str, *args: object) -> Any:
        return self.raw.eval(SCRIPTS[name].text, 1, f"{self.prefix}:", *args)


@pytest.fixture
def keys(place: Place, prefix: str) -> Keys:
    return Keys(place.raw, prefix)


def test_what_is_nobodys_is_put_back_and_the_rest_is_told(keys: Keys) -> None:
    keys.items(*"abcx")
    keys.lists("nxw", "abc")

    outcomes, first, new = keys.settle("w", "pb", "pa")

    assert outcomes == b"rr"
    assert (first, new) == (b"a", [b"n", b"x"])
    assert keys.seen == ("abnxw", "c")


@pytest.mark.parametrize("kind", ["lease", "leased_by_session"])
@pytest.mark.parametrize("how", ["p", "b", "n"])
def test_what_has_been_leased_meanwhile_is_let_be(keys: Keys, kind: str, how: str) -> None:
    keys.items("a")
    keys.leases(kind, "a")
    keys.lists("w", "a" if how != "n" else "")
    before = keys.seen

    outcomes, _, _ = keys.settle("w", f"{how}a")

    assert outcomes == b"-"
    assert keys.seen == before


@pytest.mark.parametrize("part", [(0, 0), (0, 10)])
def test_what_has_come_to_the_queue_meanwhile_is_not_put_there_again(
    keys: Keys, part: tuple[int, int]
) -> None:
    keys.items(*"abw")
    keys.lists("abw", "a")

    outcomes, _, _ = keys.settle("w", "pa", "nb", part=part)

    assert outcomes == b"d-"
    assert keys.seen == ("abw", "")


@pytest.mark.parametrize("part", [(0, 0), (0, 10)])
def test_what_left_processing_meanwhile_is_let_be(keys: Keys, part: tuple[int, int]) -> None:
    keys.items(*"abw")
    keys.lists("w", "b")

    outcomes, _, _ = keys.settle("w", "pa", part=part)

    assert outcomes == b"-"
    assert keys.seen == ("w", "b")


def test_what_has_just_been_handed_out_is_let_be(keys: Keys) -> None:
    keys.items("a")
    keys.lists("w", "a")

    assert keys.settle("w", "na")[0] == b"-"
    assert keys.seen == ("w", "a")


def test_an_id_twice_among_the_suspects_is_put_back_once(keys: Keys) -> None:
    keys.items("a")
    keys.lists("", "aba")

    assert keys.settle("", "pa", "pa", part=(0, 10))[0] == b"rd"
    assert keys.seen == ("a", "b")


def test_a_short_queue_without_its_landmark_is_looked_at_as_a_whole(keys: Keys) -> None:
    keys.items(*"abn")
    keys.lists("na", "ab")

    assert keys.settle("gone", "pa", "pb")[0] == b"dr"
    assert keys.seen == ("bna", "")


@pytest.mark.parametrize("landmark", ["gone", "", "last"])
def test_a_long_queue_without_its_landmark_has_to_be_read_again(keys: Keys, landmark: str) -> None:
    keys.items("a")
    keys.raw.rpush(f"{keys.prefix}:queue", *range(2_001), "last")
    keys.lists("", "a")

    assert keys.settle(landmark, "pa") == 0

    assert keys.raw.llen(f"{keys.prefix}:queue") == 2_002
    assert keys.raw.lrange(f"{keys.prefix}:processing", 0, -1) == [b"a"]


def test_in_a_part_of_processing_the_last_id_takes_the_place_of_one_that_is_taken_out(
    keys: Keys,
) -> None:
    keys.items(*"abcdef")
    keys.lists("", "abcdef")

    # The last two are of the part themselves: they move while it is worked.
    assert keys.settle("", "pb", "pf", "pe", part=(0, 6))[0] == b"rrr"
    waiting, processing = keys.seen
    assert waiting == "efb"
    assert sorted(processing) == ["a", "c", "d"]


def test_only_the_part_is_looked_at(keys: Keys) -> None:
    keys.items(*"abcdef")
    keys.lists("", "abcdef")

    assert keys.settle("", "pa", "pc", "pe", part=(2, 2))[0] == b"-r-"
    assert keys.seen == ("c", "abfde")


def test_a_ghost_that_has_become_an_item_is_not_dropped(keys: Keys) -> None:
    keys.items("a")
    keys.lists("abc")

    assert keys.drop((0, 10), ("g", "a", 0), ("g", "b", 0)) == [1, 0, 0]
    assert keys.seen == ("ac", "")


def test_what_is_not_held_any_more_is_not_dropped(keys: Keys) -> None:
    keys.items(*"ab")
    keys.leases("lease", "b")
    keys.lists("ab", "ab")

    assert keys.drop((0, 10), ("h", "a", 0), ("h", "b", 0)) == [0, 1, 0]
    assert keys.seen == ("a", "ab")


def test_a_copy_is_not_dropped_when_the_other_one_is_gone(keys: Keys) -> None:
    keys.items("a")
    keys.lists("aw")

    # The other one was third from the right; it has been handed out since.
    assert keys.drop((0, 2), ("t", "a", 2)) == [0, 0, 0]
    assert keys.drop((1, 1), ("t", "a", 0)) == [0, 0, 0]
    assert keys.seen == ("aw", "")


def test_of_copies_in_several_parts_the_one_on_the_right_stays(keys: Keys) -> None:
    keys.items(*"abcd")
    keys.lists("abcada")

    assert keys.drop((3, 3), ("t", "a", 0)) == [0, 1, 0]
    assert keys.drop((0, 3), ("t", "a", 0)) == [0, 1, 0]
    assert keys.seen == ("bcda", "")
