"""The changes that are due in tubes: tasks that expire, return, or become ready.

Called by   stores, before an operation looks at a tube and whenever the clock reaches
            `Queue.soonest_ms`.
Calls       nothing.

Not here: sessions that end (sessions.py), tasks of drivers, which have their own times.
"""

from __future__ import annotations

from typing import Final

from quinque.engine.tubes.tube import Tube
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DELAYED, LEASED
from quinque.model.events import EXPIRED, Expired, WorkEvent
from quinque.model.tube_events import BY_DELAY, BY_TTR, TASKS_RETURNED, TasksReturned

# 20 times 500 reminders are a millisecond's work.
_LOOKS_MOST: Final = 20


def settle(tube: Tube, now_ms: int, most: int) -> list[WorkEvent]:
    """The events that time has made due: at most `most` tasks of each kind, and at least one if
    there is one among _LOOKS_MOST times as many reminders that come to nothing."""
    events: list[WorkEvent] = []
    gone: list[bytes] = []
    for _ in range(_LOOKS_MOST):
        if gone or tube.expiries.next_ms > now_ms:
            break
        gone = [
            id
            for id in tube.expiries.take(now_ms, most)
            if (task := tube.find(id)) is not None and is_over(tube, task, now_ms)
        ]
    due: list[WorkMessage] = []
    for _ in range(_LOOKS_MOST):
        if due or tube.dues.next_ms > now_ms:
            break
        for id in tube.dues.take(now_ms, most):
            task = tube.find(id)
            if task is not None and is_over(tube, task, now_ms):
                gone.append(id)  # if its end came while it was taken, nothing else reminds of it
            elif task is not None and is_due(tube, task, now_ms):
                due.append(task)
    if gone:
        # There may be several reminders of one.
        events.append(Expired(EXPIRED, tube.name, list(dict.fromkeys(gone))))
    if due:
        events += come_back(tube, list(dict.fromkeys(due)), now_ms)
    return events


def come_back(tube: Tube, due: list[WorkMessage], now_ms: int) -> list[WorkEvent]:
    """The time to run of these tasks is over, or their delay."""
    events: list[WorkEvent] = []
    for state, why in ((LEASED, BY_TTR), (DELAYED, BY_DELAY)):
        ids = [task.id for task in due if task.state == state]
        if ids:
            events.append(TasksReturned(TASKS_RETURNED, tube.name, now_ms, why, 0, ids))
    return events


def is_due(tube: Tube, task: WorkMessage, now_ms: int) -> bool:
    """Return whether the task's time to run or its delay is over, and its time to live is not."""
    if task.state != LEASED and task.state != DELAYED:
        return False
    return task.due_ms <= now_ms and not is_over(tube, task, now_ms)


def is_over(tube: Tube, task: WorkMessage, now_ms: int) -> bool:
    """Return whether the task's time to live is over. It may not have been removed yet."""
    return 0 < task.expires_ms <= now_ms and tube.has_ended(task, now_ms)
