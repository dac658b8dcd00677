"""Which tasks of a lane may be taken: the first ones, as many as it has room for."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from quinque.engine.tubes.lanes import Lanes
from quinque.engine.tubes.sessions import Sessions
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.message import WorkMessage
from quinque.model.tube_ops import FOREVER_MS
from tests.engine.work.invariants import check_order
from tests.model.effort import effort

NOWHERE = Tube(b"nowhere", Sessions(), 0)


def task_at(place: int, lane: bytes) -> Task:
    return Task(b"%d" % place, place, b"", 0, NOWHERE, 0, FOREVER_MS, FOREVER_MS, lane)


class Both:
    """Lanes, and the tasks that are in them."""

    def __init__(self, width: int) -> None:
        self.lanes = Lanes(width)
        self.ready: list[Task] = []
        self.taken: list[Task] = []

    def expected(self, name: bytes) -> list[WorkMessage]:
        waiting = sorted((it for it in self.ready if it.lane == name), key=lambda it: it.place)
        room = self.lanes.width - sum(it.lane == name for it in self.taken)
        return [*waiting[: max(0, room)]]

    def shown(self) -> set[WorkMessage]:
        return {task for name in (b"a", b"b") for task in self.expected(name)}

    def check(self) -> None:
        for name in (b"a", b"b"):
            assert self.lanes.first_of(name, 1_000) == self.expected(name)
            assert self.lanes.first_of(name, 1) == self.expected(name)[:1]
        check_order(self.lanes.heads)
        assert list(self.lanes.heads) == sorted(self.shown(), key=lambda it: it.place)
        assert self.lanes._lanes.keys() == {it.lane for it in [*self.ready, *self.taken]}


@effort(examples=100)
@given(width=st.integers(1, 5), seed=st.integers(0, 1 << 16))
def test_the_first_tasks_of_each_lane_are_shown_whatever_comes_and_goes(
    width: int, seed: int
) -> None:
    random = Random(seed)
    both = Both(width)
    lanes = both.lanes
    places = random.sample(range(1_000), 100)

    for place in places:
        showings, before = lanes.showings, both.shown()
        task = task_at(place, random.choice([b"a", b"b"]))
        match random.randrange(6):
            case 0 | 1:
                both.ready.append(task)
                lanes.came(task)
            case 2 if both.ready:
                gone = both.ready.pop(random.randrange(len(both.ready)))
                lanes.went(gone)
            case 3 if lanes.heads.size:
                taken = random.choice(list(lanes.heads))
                assert isinstance(taken, Task)
                both.ready.remove(taken)
                both.taken.append(taken)
                lanes.taken(taken)
            case 4:  # also more than there is room for, as where tasks were copied
                both.taken.append(task)
                lanes.hold(task)
            case 5 if both.taken:
                lanes.freed(both.taken.pop(random.randrange(len(both.taken))))

        both.check()
        assert (lanes.showings > showings) == bool(both.shown() - before)
