"""Ids that are numbers, in families where the store makes them: <ms>-<number>.

Called by   names.py (makes them), replay.py (which were made before), compact.py.
Calls       nothing.

There is one sequence for the whole store. The first id of a millisecond has the number 1; while the
clock stands still, or has gone back, the last millisecond's numbers go on.

Not here: ids of other worklists (names.py), which are chance.
"""

from __future__ import annotations

from quinque.model.own_events import NUMBERED, Numbered


class Numbers:
    def __init__(self) -> None:
        self.at_ms = 0  # of the newest id
        self.number = 0
        self.segment = 0  # the journal segment that last recorded the newest id

    def new_ids(self, now_ms: int, count: int) -> list[bytes]:
        """Make ids that no message has or will get."""
        if now_ms > self.at_ms:
            self.at_ms, self.number = now_ms, 0
        at_ms, first = self.at_ms, self.number + 1
        self.number += count
        return [b"%d-%d" % (at_ms, number) for number in range(first, first + count)]

    def note(self, id: bytes) -> None:
        """Let new ids follow this one. Ids of another form are ignored."""
        at_ms, _, number = id.partition(b"-")
        if at_ms.isdigit() and number.isdigit():
            self.note_newest(int(at_ms), int(number))

    def note_newest(self, at_ms: int, number: int) -> None:
        """Ids go on after that one."""
        if (at_ms, number) > (self.at_ms, self.number):
            self.at_ms, self.number = at_ms, number

    def kept(self) -> Numbered:
        return Numbered(NUMBERED, self.at_ms, self.number)
