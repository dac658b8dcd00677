"""The verbs of the command line for tubes.

Called by   verbs_of.py.
Calls       the commands TUBE.*, on one connection, which is the session that takes tasks unless
            --session names another.

Not here: the meaning of the verbs (verbs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.cli.verbs import Shown, Tell, Verbs, as_ids
from quinque.client.calls import as_map
from quinque.errors import (
    NoPermission,
    NoTask,
    NotDone,
    NotTaken,
    NoTube,
    QuinqueError,
    TubeFull,
)
from quinque.model.families import TUBES
from quinque.model.states import State
from quinque.model.task_bodies import plain
from quinque.model.tube_ops import BrowseTasks, DeleteTasks, KickTasks

_STATES: Final = {b"r": "ready", b"t": "leased", b"~": "delayed", b"!": "dead", b"-": "gone"}
# After a longer wait, the client would assume that the broker does not answer.
_WAIT_MOST_S: Final = 10.0
_AT_ONCE: Final = 1_000  # buried tasks that are dropped together


class TubeVerbs(Verbs):
    family = TUBES
    has_dead = True
    adding = frozenset({"delay", "ttl", "pri", "lane"})
    taking = frozenset({"session"})
    nacking = frozenset({"delay"})

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        words: list[Any] = []
        for option, word in (("delay", "DELAY"), ("ttl", "TTL")):
            if option in how:
                words += [word, _seconds(how[option])]
        for option, word in (("pri", "PRI"), ("lane", "UTUBE")):
            if option in how:
                words += [word, *as_ids([str(how[option])])]
        if not words:
            tasks = self.broker.call("TUBE.MPUT", self.queue, *bodies)
        else:
            tasks = self._put(bodies, words)
        if bodies and not tasks:
            raise TubeFull(self.queue)
        return [str(task[0]) for task in tasks]

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        joined = None
        if "session" in how:
            joined = self._join(how["session"], is_kept=not is_acked)
        elif not is_acked:
            self.refuse(
                "message take without --ack or --session",
                "a task returns to the tube when the connection that took it closes; pass"
                " --session NAME to keep the task until message ack, or use the prompt"
                " of quinque cli",
            )
        left_s = wait_s
        while True:
            now_s = min(left_s, _WAIT_MOST_S)
            found = self.broker.call("TUBE.TAKE", self.queue, f"{now_s:.3f}", "COUNT", count)
            left_s -= now_s
            if found or left_s <= 0:
                break
        tasks = [_shown(task, has_state=False) for task in found or ()]
        if tasks and is_acked:
            self._acked([task.id for task in tasks])
        elif tasks and self.broker.call("TUBE.IDENTIFY") != joined:
            raise NotDone(
                "the connection was lost, and the tasks that were taken have returned to the tube"
            )
        return tasks

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        self._join_taker("ack", how)
        return self._acked(ids)

    def nack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        self._join_taker("nack", how)
        delay = ["DELAY", _seconds(how["delay"])] if "delay" in how else []
        returned = 0
        for id in as_ids(ids):
            try:
                self.broker.call("TUBE.RELEASE", self.queue, id, *delay)
            except (NotTaken, NoTask):
                continue
            returned += 1
        return returned

    def delete(self, ids: Sequence[str]) -> int:
        return sum(
            task is not None for task in self.broker.run(DeleteTasks(self.queue, as_ids(ids)))
        )

    def peek(self, state: State, count: int) -> list[Shown]:
        tasks = self.broker.run(BrowseTasks(self.queue, state, count))
        return [
            Shown(task.message_id.decode(), plain(task.body), {"state": state.name.lower()})
            for task in tasks
        ]

    def show(self, id: str) -> Shown | None:
        try:
            return _shown(self.broker.call("TUBE.PEEK", self.queue, *as_ids([id])))
        except NoTask:
            return None

    def flush(self, tell: Tell) -> int:
        count: int = self.broker.call("TUBE.TRUNCATE", self.queue)
        tell(count)
        return count

    def details(self) -> dict[str, Any]:
        listed = map(as_map, self.broker.call("TUBE.LIST", self.queue))
        told = next(listed, None)
        if told is None:  # removed meanwhile
            raise NoTube(self.queue)
        calls = as_map(as_map(self.broker.call("TUBE.STATS", self.queue))[b"calls"])
        shown = {name.decode(): value for name, value in told.items() if name != b"name"}
        for name in ("temporary", "asleep"):
            shown[name] = bool(shown[name])
        return shown | {"calls": {name.decode(): number for name, number in calls.items()}}

    def redrive(self, ids: Sequence[str], count: int) -> int:
        if ids:
            return self.broker.run(KickTasks(self.queue, message_ids=as_ids(ids)))
        return self.broker.run(KickTasks(self.queue, count or self._buried()))

    def drop(self, ids: Sequence[str]) -> int:
        if not ids:
            return self._drop_all()
        dead = [id for id in ids if (task := self.show(id)) and task.facts["state"] == "dead"]
        return self.delete(dead)

    def _put(self, bodies: Sequence[bytes], words: Sequence[Any]) -> list[Any]:
        """Put the tasks, until the tube is full or one is refused. Raises the error if that is the
        first one."""
        tasks: list[Any] = []
        for body in bodies:
            try:
                task = self.broker.call("TUBE.PUT", self.queue, body, *words)
            except QuinqueError:
                if not tasks:
                    raise
                break
            if task is None:
                break
            tasks.append(task)
        return tasks

    def _drop_all(self) -> int:
        """Drop as many tasks as there are now: other clients may bury more meanwhile."""
        dropped, left = 0, self._buried()
        while left > 0 and (tasks := self.peek(State.DEAD, min(left, _AT_ONCE))):
            dropped += self.delete([task.id for task in tasks])
            left -= len(tasks)
        return dropped

    def _buried(self) -> int:
        tasks = as_map(as_map(self.broker.call("TUBE.STATS", self.queue))[b"tasks"])
        return int(tasks[b"buried"])

    def _join_taker(self, verb: str, how: dict[str, Any]) -> None:
        """Join the session that took the tasks. Raises BadSetting."""
        if "session" not in how:
            self.refuse(
                f"message {verb} without --session",
                f"only the session that took a task can {verb} it; pass its --session",
            )
        self._join(how["session"], is_kept=False)

    def _join(self, session: str, *, is_kept: bool) -> bytes:
        """Join the session and return its id. Raises BadSetting if the broker would end the session
        with this connection."""
        if is_kept:
            try:
                _, span_s = self.broker.call("CONFIG", "GET", "session-ttr")
            except NoPermission:
                span_s = None
            if span_s == b"0":
                self.refuse(
                    "message take --session while session-ttr of the broker is 0",
                    "the task would return to the tube when this command ends; to keep it for 60 "
                    "s, run: quinque cli CONFIG SET session-ttr 60",
                )
        joined: bytes = self.broker.call("TUBE.IDENTIFY", *as_ids([session]))
        return joined

    def _acked(self, ids: Sequence[str]) -> int:
        try:
            acked = self.broker.call("TUBE.ACK", self.queue, *as_ids(ids))
        except NotTaken:
            return 0
        return 1 if len(ids) == 1 else sum(task is not None for task in acked)


def _seconds(span_s: float) -> str:
    """Write a time as the commands take it, with milliseconds."""
    return f"{span_s:.3f}"


def _shown(task: list[Any], *, has_state: bool = True) -> Shown:
    id, state, data = task
    body = data if isinstance(data, bytes) else str(data).encode()
    return Shown(str(id), body, {"state": _STATES[state]} if has_state else {})
