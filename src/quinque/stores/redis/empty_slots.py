"""Slots that a broker believes to be empty, and therefore visits rarely.

Called by   served.py (what was heard), ticks.py (what was found), taking.py.
Calls       nothing.

A slot in which a look found no queue, no subscription and no batch is believed to be empty, until a
notice says that something began there (scripts/lib/slot_begin.lua), or notices may have been lost.
A notice may be faster than the answer to a look that was carried out before it:

    look begins ── the script finds nothing ── a queue is made ── notice ── the answer comes

So a look is believed only if no notice of the slot came since it began.

Not here: which slots are in use (slots.py), why they are not forgotten
(docs/decisions/0039-empty-slots.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class EmptySlots:
    """Slots that are believed to have nothing in them."""

    def __init__(self) -> None:
        self.believed: set[int] = set()
        self.blank: set[int] = set()  # of these, those that have nothing on record
        self._notices = 0
        self._told: dict[int, int] = {}  # by slot: the number of its last notice
        self._missed = 0  # the number of the last notice before some may have been lost

    def begin_look(self) -> int:
        """The number to say to end_look()."""
        return self._notices

    def end_look(self, begun: int, found: Mapping[int, bool]) -> None:
        """A look that began then found out of each of these slots whether it is empty."""
        for slot, is_empty in found.items():
            if is_empty and self._is_certain(begun, slot):
                self.believed.add(slot)
            else:
                self.believed.discard(slot)
                self.blank.discard(slot)

    def note_blank(self, begun: int, slots: Iterable[int]) -> None:
        """A look that began then found nothing on record in these slots; that stays so while they
        are empty."""
        self.blank.update(
            slot for slot in self.believed.intersection(slots) if self._is_certain(begun, slot)
        )

    def hear(self, slot: int) -> None:
        """Something is in the slot."""
        self._notices += 1
        self._told[slot] = self._notices
        self.believed.discard(slot)
        self.blank.discard(slot)

    def miss(self) -> None:
        """Notices may have been lost: nothing is believed."""
        self._notices += 1
        self._missed = self._notices
        self.believed.clear()
        self.blank.clear()

    def _is_certain(self, begun: int, slot: int) -> bool:
        """Whether no notice of the slot came since then, and none can have been lost."""
        return self._missed <= begun and self._told.get(slot, 0) <= begun
