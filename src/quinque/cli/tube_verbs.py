"""What the command line does to a tube.

Called by   verbs_of.py.
Calls       the commands TUBE.*, on one connection: who takes a task is the connection.

Not here: what a verb means (verbs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.cli.verbs import Shown, Tell, Verbs
from quinque.client.calls import as_map
from quinque.errors import NoTask, TubeFull
from quinque.model.families import TUBES
from quinque.model.states import State

_STATES: Final = {b"r": "ready", b"t": "leased", b"~": "delayed", b"!": "dead", b"-": "gone"}
# Longer, and the broker would be thought to be gone.
_WAIT_MOST_S: Final = 10.0


class TubeVerbs(Verbs):
    family = TUBES
    adding = frozenset({"delay", "ttl", "pri", "lane"})

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        words: list[Any] = []
        for option, word in (("delay", "DELAY"), ("ttl", "TTL"), ("pri", "PRI"), ("lane", "UTUBE")):
            if option in how:
                words += [word, str(how[option])]
        if not words:
            tasks = self.broker.call("TUBE.MPUT", self.queue, *bodies)
            if len(tasks) < len(bodies):
                raise TubeFull(self.queue)
            return [str(task[0]) for task in tasks]
        ids = []
        for body in bodies:
            put = self.broker.call("TUBE.PUT", self.queue, body, *words)
            if put is None:
                raise TubeFull(self.queue)
            ids.append(str(put[0]))
        return ids

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        if not is_acked:
            self.refuse(
                "has tasks of sessions: what this command takes goes back when it ends. With --ack"
                " it is done"
            )
        left_s = wait_s
        while True:
            now_s = min(left_s, _WAIT_MOST_S)
            found = self.broker.call("TUBE.TAKE", self.queue, f"{now_s:.3f}", "COUNT", count)
            left_s -= now_s
            if found or left_s <= 0:
                break
        tasks = [_shown(task, has_state=False) for task in found or ()]
        if tasks:
            self.broker.call("TUBE.ACK", self.queue, *(task.id for task in tasks))
        return tasks

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        self.refuse("has tasks of sessions: only the connection that took one can ack it")

    def delete(self, ids: Sequence[str]) -> int:
        return sum(self._has_deleted(id) for id in ids)

    def peek(self, state: State, count: int) -> list[Shown]:
        self.refuse("cannot be looked through: message show tells of one task, by its id")

    def show(self, id: str) -> Shown | None:
        try:
            return _shown(self.broker.call("TUBE.PEEK", self.queue, id))
        except NoTask:
            return None

    def flush(self, tell: Tell) -> int:
        count: int = self.broker.call("TUBE.TRUNCATE", self.queue)
        tell(count)
        return count

    def details(self) -> dict[str, Any]:
        listed = self.broker.call("TUBE.LIST")
        [told] = [told for told in map(as_map, listed) if told[b"name"] == self.queue]
        calls = as_map(as_map(self.broker.call("TUBE.STATS", self.queue))[b"calls"])
        shown = {name.decode(): value for name, value in told.items() if name != b"name"}
        for name in ("temporary", "asleep"):
            shown[name] = bool(shown[name])
        return shown | {"calls": {name.decode(): number for name, number in calls.items()}}

    def redrive(self, ids: Sequence[str], count: int) -> int:
        if ids:
            self.refuse("kicks the first of its buried tasks: say --count and not which")
        kicked: int = self.broker.call("TUBE.KICK", self.queue, count or self._buried())
        return kicked

    def drop(self, ids: Sequence[str]) -> int:
        if not ids:
            self.refuse("cannot be looked through: say which tasks")
        dead = [id for id in ids if (task := self.show(id)) and task.facts["state"] == "dead"]
        return self.delete(dead)

    def _buried(self) -> int:
        tasks = as_map(as_map(self.broker.call("TUBE.STATS", self.queue))[b"tasks"])
        return int(tasks[b"buried"])

    def _has_deleted(self, id: str) -> bool:
        try:
            self.broker.call("TUBE.DELETE", self.queue, id)
        except NoTask:
            return False
        return True


def _shown(task: list[Any], *, has_state: bool = True) -> Shown:
    id, state, data = task
    body = data if isinstance(data, bytes) else str(data).encode()
    return Shown(str(id), body, {"state": _STATES[state]} if has_state else {})
