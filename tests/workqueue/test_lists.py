"""Reading a list that others change: whatever stays in it is read. Without a Redis."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from quinque.workqueue.counts import Progress
from quinque.workqueue.lists import read_list
from quinque.workqueue.steps import Command

# Between two slices: how many come on the left, how many leave on the right, and how many are taken
# out at some place.
changes = some.tuples(some.integers(0, 30), some.integers(0, 30), some.integers(0, 8))
SIZE = 40


@given(
    length=some.integers(0, 300),
    script=some.lists(changes, max_size=12),
    at=some.integers(0, 300),
)
def test_every_id_that_stays_is_read(
    length: int, script: list[tuple[int, int, int]], at: int
) -> None:
    ids = [b"%d" % number for number in range(length)]
    began, read, added = set(ids), list[bytes](), 0
    steps = read_list(b"list", read.extend, "waiting", size=SIZE)
    answer: object = None
    todo = list(script)
    try:
        while True:
            request = steps.send(answer)
            if isinstance(request, Progress):
                answer = None
                continue
            assert isinstance(request, Command)
            name, _, *bounds = request.words
            if name == "LLEN":
                answer = len(ids)
                continue
            first, last = (int(bound) for bound in bounds)
            answer = ids[first : last + 1]
            if todo:
                more, left, out = todo.pop()
                ids = [b"new %d" % (added + number) for number in range(more)] + ids
                added += more
                ids = ids[: len(ids) - left]
                del ids[at : at + out]
    except StopIteration:
        pass

    assert began & set(ids) <= set(read)


def test_with_an_id_to_read_to_only_what_came_since_is_read() -> None:
    read: list[bytes] = []
    steps = read_list(b"list", read.extend, "waiting", until=b"mark")

    next(steps)
    try:
        steps.send([b"b", b"a", b"mark", b"z"])
    except StopIteration:
        pass

    assert read == [b"b", b"a"]
