"""What is true of a tube between any two events, whatever happened before.

Called by   tests/store, where indexes are at stake.
Calls       nothing; it looks into the indexes of engine/tubes/ and what they consist of.
"""

from __future__ import annotations

from quinque.engine.tubes.sessions import Sessions
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY
from quinque.model.limits import NEVER_MS
from tests.engine.invariants import check_calendar
from tests.engine.work.invariants import check_directory, check_order, in_order


def check_tube(tube: Tube, now_ms: int = 0) -> None:
    """Every index of the tube says the same as every other."""
    assert tube.in_order
    check_calendar(tube.expiries)
    check_calendar(tube.dues)
    check_directory(tube.directory)
    for order in (tube.ready, tube.delayed, tube.dead):
        check_order(order)
    of: dict[int, list[Task]] = {READY: [], DELAYED: [], LEASED: [], DEAD: []}
    assert len(tube.all()) == len(tube.directory.by_id) == tube.size
    for task in tube.all():
        assert isinstance(task, Task)
        assert task.queue is tube
        assert tube.find(task.id) is task, "a task is in its tube and cannot be found"
        assert int(task.id) < tube.number, "its number would come again"
        of[task.state].append(task)
        _check_task(tube, task, now_ms)
    assert list(tube.ready) == in_order([*of[READY]])
    assert list(tube.delayed) == in_order([*of[DELAYED]])
    assert list(tube.dead) == in_order([*of[DEAD]])
    assert tube.leased == len(of[LEASED])
    if tube.kind.has_lanes:
        _check_lanes(tube, of[READY], of[LEASED])
    next_ms = min(tube.expiries.next_ms, tube.dues.next_ms)
    assert tube.soonest_ms <= next_ms, "unnoticed"
    assert tube.soonest_ms >= NEVER_MS or tube.alarm_ms <= tube.soonest_ms, "no alarm is set"


def check_sessions(sessions: Sessions, tubes: list[Tube]) -> None:
    """Whatever is taken is held by the session that has taken it, and by no other."""
    taken = [task for tube in tubes for task in tube.all() if task.state == LEASED]
    holders = {*sessions.by_id.values(), *sessions._ending}
    everything = [task for session in holders for task in session.held]
    held = [task for task in everything if not task.is_gone]
    assert {id(task) for task in taken} == {id(task) for task in held}
    assert len(taken) == len(held)
    for session_id, session in sessions.by_id.items():
        assert session.id == session_id
        assert all(task.holder is session for task in session.held)


def _check_task(tube: Tube, task: Task, now_ms: int) -> None:
    assert (task.holder is not None) == (task.state == LEASED)
    if task.expires_ms > now_ms:
        assert task.id in tube.expiries._days[task.expires_ms], "its end has no reminder"
    if task.state in (DELAYED, LEASED):
        assert task.due_ms > 0
        if task.due_ms < NEVER_MS:
            assert task.id in tube.dues._days[task.due_ms], "it would not come back"
    else:
        assert task.due_ms == 0


def _check_lanes(tube: Tube, ready: list[Task], taken: list[Task]) -> None:
    """Of each lane so many tasks may be taken as it has room for, the first ones."""
    lanes = tube.lanes
    assert lanes is not None
    shown: list[Task] = []
    names = {task.lane for task in [*ready, *taken]}
    assert lanes._lanes.keys() == names
    for name in names:
        lane = lanes._lanes[name]
        waiting = sorted((it for it in ready if it.lane == name), key=lambda it: it.place)
        assert list(lane.ready) == waiting
        assert lane.taken == sum(it.lane == name for it in taken)
        some = waiting[: max(0, lanes.width - lane.taken)]
        assert lanes.first_of(name, len(waiting)) == some
        assert lane.shown == len(some)
        assert lane.last is (some[-1] if some else None)
        shown += some
    check_order(lanes.heads)
    assert list(lanes.heads) == in_order([*shown])
